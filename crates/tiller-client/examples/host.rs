//! A host: offers the model a tool, limits the prompt, and prints the answer as it arrives.
//! `cargo run -p tiller-client --example host` needs `tiller` in `PATH`, and no key.

use std::error::Error;
use std::io::{self, Write};

use serde::Deserialize;
use serde_json::json;
use tiller_client::protocol::{Limits, Record, ToolOutput};
use tiller_client::{Builder, Client, Tool, ToolContext, ToolResult};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let builder = Client::builder().model("tiller/demo");
    run(builder, "What is in this folder?", &mut io::stdout()).await
}

#[derive(Deserialize)]
struct Harbour {
    name: String,
}

/// The model calls this function as the tool `depth`. An error would be a text for the model.
async fn depth(harbour: Harbour, _context: ToolContext) -> ToolResult {
    Ok(ToolOutput::text(format!("{}: 12 m", harbour.name)))
}

pub async fn run(
    builder: Builder,
    prompt: &str,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let parameters = json!({
        "type": "object",
        "properties": {"name": {"type": "string", "description": "the name of a harbour"}},
        "required": ["name"],
    });
    let depth = Tool::new("depth", "Looks up the depth of a harbour.", parameters, depth);
    let client = builder.tool(depth).start().await?;
    client.set_limits(Limits { max_turns: Some(5), ..Limits::default() }).await?;

    let mut turn = client.prompt(prompt).await?;
    while let Some(event) = turn.next().await? {
        if let Some(text) = event.text_delta() {
            write!(out, "{text}")?;
            out.flush()?;
        } else if let Record::ToolExecutionStart { tool_name, .. } = event.record() {
            writeln!(out, "\n[{tool_name}]")?;
        }
    }
    let result = turn.result().await?.check()?;
    writeln!(out, "\n{} turns, {} tokens", result.turns, result.usage.total_tokens)?;
    client.close().await;
    Ok(())
}
