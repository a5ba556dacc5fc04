//! Tools of the host.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_client::protocol::{PromptStatus, Record, ToolOutput, ToolSource};
use tiller_client::{Client, Tool, ToolContext, ToolResult};
use tokio::sync::{Barrier, Notify};

use crate::support::{Place, bounded, until};

/// A tool whose arguments are not looked at.
fn tool<R>(name: &str, function: impl Fn(ToolContext) -> R + Send + Sync + 'static) -> Tool
where
    R: Future<Output = ToolResult> + Send + 'static,
{
    let call = move |_: Value, context| function(context);
    Tool::new(name, "A tool of a test", json!({"type": "object"}), call)
}

#[derive(Deserialize)]
struct Sum {
    a: i64,
    b: i64,
}

#[test]
fn function_is_called_with_typed_arguments() {
    let place = Place::new();
    bounded(async {
        let script = "call add {\"a\": 2}\n\nexpect tool-result has b\n\
                      call add {\"a\": 2, \"b\": 3}\n\nexpect tool-result 5\nsay Five.\n";
        let client = place.client(script).await;
        let parameters = json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        });
        let add = Tool::new("add", "Adds two numbers.", parameters, |sum: Sum, _| async move {
            Ok(ToolOutput::text((sum.a + sum.b).to_string()).details(json!({"seen": 1})))
        });
        client.add_tool(add).await.unwrap();
        let tools = client.get_tools().await.unwrap().tools;
        let add = tools.iter().find(|tool| tool.name == "add").unwrap();
        assert_eq!((add.source, add.is_active), (ToolSource::Host, true));

        let mut turn = client.prompt("Add").await.unwrap();
        let wanted = |record: &Record<'_>| {
            matches!(record, Record::ToolExecutionEnd { is_error: false, .. })
        };
        let end = until(&mut turn, wanted).await;
        let Record::ToolExecutionEnd { result, .. } = end.record() else { panic!("{end:?}") };
        assert_eq!(result.details, Some(json!({"seen": 1})));
        assert_eq!(turn.result().await.unwrap().check().unwrap().text, "Five.");
    });
}

#[test]
fn errors_and_panics_are_results_that_the_model_reads() {
    let place = Place::new();
    bounded(async {
        let script = "call fail {}\n\nexpect tool-error the tide is out\n\
                      call crash {}\n\nexpect tool-error The tool crash has crashed\nsay A pity.\n";
        let fail = tool("fail", |_| async { Err("the tide is out".into()) });
        let crash = tool("crash", |_| async { panic!("a bug of the host") });
        let client = place.scripted(script).tool(fail).tool(crash).start().await.unwrap();
        let result = client.prompt("Try").await.unwrap().result().await.unwrap();
        assert_eq!(result.check().unwrap().text, "A pity.");
    });
}

#[test]
fn progress_is_shown() {
    let place = Place::new();
    bounded(async {
        // The result waits until the update was seen: updates that arrive together are merged.
        let seen = Arc::new(Notify::new());
        let is_seen = seen.clone();
        let work = tool("work", move |context| {
            let is_seen = is_seen.clone();
            async move {
                context.update(ToolOutput::text("half")).await;
                is_seen.notified().await;
                Ok(ToolOutput::text("whole"))
            }
        });
        let client =
            place.scripted("call work {}\n\nsay Done.\n").tool(work).start().await.unwrap();
        let mut turn = client.prompt("Work").await.unwrap();
        let wanted = |record: &Record<'_>| matches!(record, Record::ToolExecutionUpdate { .. });
        let update = until(&mut turn, wanted).await;
        let Record::ToolExecutionUpdate { partial_result, .. } = update.record() else {
            panic!("{update:?}")
        };
        assert_eq!(partial_result.as_deref(), Some(&ToolOutput::text("half")));
        seen.notify_one();
        turn.result().await.unwrap().check().unwrap();
    });
}

#[test]
fn abort_cancels_the_call() {
    let place = Place::new();
    bounded(async {
        let (entered, cancelled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (enters, cancels) = (entered.clone(), cancelled.clone());
        let wait = tool("wait", move |context| {
            let (enters, cancels) = (enters.clone(), cancels.clone());
            async move {
                enters.notify_one();
                context.cancelled().await;
                cancels.notify_one();
                Err("too late".into())
            }
        });
        let client = place.scripted("call wait {}\n").tool(wait).start().await.unwrap();
        let mut turn = client.prompt("Wait").await.unwrap();
        entered.notified().await;
        turn.abort().await.unwrap();
        cancelled.notified().await;
        assert_eq!(turn.result().await.unwrap().status, PromptStatus::Aborted);
    });
}

#[test]
fn time_limit_cancels_the_call() {
    let place = Place::new();
    bounded(async {
        let script = "call wait {}\n\nexpect tool-error has did not answer within 1 ms\nsay OK.\n";
        let wait = tool("wait", |context| async move {
            context.cancelled().await;
            Err("too late".into())
        });
        let wait = wait.timeout(Duration::from_millis(1));
        let client = place.scripted(script).tool(wait).start().await.unwrap();
        let result = client.prompt("Wait").await.unwrap().result().await.unwrap();
        assert_eq!(result.check().unwrap().text, "OK.");
    });
}

#[test]
fn calls_of_one_turn_run_at_the_same_time() {
    let place = Place::new();
    bounded(async {
        let both = Arc::new(Barrier::new(2));
        let meet = tool("meet", move |_| {
            let both = both.clone();
            async move {
                both.wait().await;
                Ok(ToolOutput::text("met"))
            }
        });
        let script = "call meet {}\ncall meet {}\n\nexpect tool-result met\nsay Met.\n";
        let client = place.scripted(script).tool(meet).start().await.unwrap();
        let result = client.prompt("Meet").await.unwrap().result().await.unwrap();
        assert_eq!(result.check().unwrap().text, "Met.");
    });
}

#[test]
fn tool_can_use_the_client() {
    let place = Place::new();
    bounded(async {
        let slot: Arc<OnceLock<Weak<Client>>> = Arc::default();
        let own = slot.clone();
        let rename = tool("rename", move |_| {
            let client = own.get().and_then(Weak::upgrade);
            async move {
                client.ok_or("there is no client")?.set_session_name("harbour").await?;
                Ok(ToolOutput::text("renamed"))
            }
        });
        let script = "call rename {}\n\nexpect tool-result renamed\nsay Done.\n";
        let client = Arc::new(place.scripted(script).tool(rename).start().await.unwrap());
        slot.set(Arc::downgrade(&client)).unwrap();
        client.prompt("Go").await.unwrap().result().await.unwrap().check().unwrap();
        let name = client.get_state().await.unwrap().session_name;
        assert_eq!(name.as_deref(), Some("harbour"));
    });
}

#[test]
fn name_that_is_taken_is_refused() {
    let place = Place::new();
    bounded(async {
        let client = place.client("expect tools lacks mine\nsay OK.\n").await;
        let empty = |name: &str| tool(name, |_| async { Ok(ToolOutput::default()) });
        let refused = client.add_tool(empty("ls")).await.unwrap_err().to_string();
        assert!(refused.contains("conflicts with an existing tool"), "{refused}");
        client.add_tool(empty("mine")).await.unwrap();
        client.remove_tool("mine").await.unwrap();
        client.prompt("Go").await.unwrap().result().await.unwrap().check().unwrap();
    });
}
