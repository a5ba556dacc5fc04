//! The head of the page: the session's name, and its totals.

use tiller_session::{Session, Stats};

use crate::Setting;
use crate::chart::charts;
use crate::highlight::Colours;
use crate::markdown::block;
use crate::mask::Mask;
use crate::scan::Scan;
use crate::text::{brief, counted, dollars, grouped, show, shown, visible};
use crate::time;

/// The session's name: the user's, else the first user message.
pub(crate) fn title(session: &Session, scan: &Scan, mask: &Mask) -> String {
    let name =
        session.name().filter(|name| !name.is_empty()).map(|name| mask.text(name).into_owned());
    name.or_else(|| scan.opening.clone()).unwrap_or_else(|| "Session".to_owned())
}

pub(crate) fn head(
    session: &Session,
    scan: &Scan,
    mask: &Mask,
    is_on_path: impl Fn(usize) -> bool,
    window: Option<u64>,
    out: &mut String,
) {
    out.push_str("<p class=\"kicker\">Session</p>\n<h1 dir=\"auto\">");
    show(&title(session, scan, mask), out);
    out.push_str("</h1>\n<p class=\"when\">");
    if let (Some(started), Some(ended)) = (scan.started, scan.ended) {
        out.push_str(&format!(
            "<time datetime=\"{}\">{}</time>",
            tiller_session::time::iso(started),
            time::date(started)
        ));
        out.push_str(&format!("<span>{}</span>", time::length(ended.saturating_sub(started))));
    }
    out.push_str("<code>");
    show(&mask.text(&session.cwd().to_string_lossy()), out);
    out.push_str("</code><code class=\"id\">");
    show(session.id(), out);
    out.push_str("</code></p>\n");
    stats(session.stats(), scan, out);
    charts(scan, is_on_path, window, out);
}

fn stats(stats: &Stats, scan: &Scan, out: &mut String) {
    let Stats { user_messages, assistant_messages, tool_calls, tokens, cost, .. } = stats;
    out.push_str("<dl class=\"stats\">");
    let detail =
        format!("{} user, {} assistant", grouped(*user_messages), grouped(*assistant_messages));
    stat("Messages", &grouped(user_messages + assistant_messages), &detail, out);
    stat("Tool calls", &grouped(*tool_calls), &counted(stats.tool_results, "result"), out);
    let cached = tokens.cache_read.saturating_add(tokens.cache_write);
    let kinds =
        format!("↑{} ↓{} cache {}", brief(tokens.input), brief(tokens.output), brief(cached));
    stat("Tokens", &brief(tokens.total), &kinds, out);
    stat("Cost", &dollars(*cost), "", out);
    if let Some((first, others)) = scan.models.split_first() {
        let (provider, id) = first.split_once('/').unwrap_or(("", first));
        match others {
            [] => stat("Model", id, provider, out),
            others => stat("Models", id, &format!("{provider}; also {}", others.join(", ")), out),
        }
    }
    out.push_str("</dl>\n");
}

fn stat(name: &str, value: &str, more: &str, out: &mut String) {
    out.push_str(&format!("<div><dt>{name}</dt><dd>{}", shown(value)));
    if !more.is_empty() {
        out.push_str(&format!("<small>{}</small>", shown(more)));
    }
    out.push_str("</dd></div>");
}

/// The system prompt and the tools.
pub(crate) fn setting(setting: &Setting, mask: &Mask, out: &mut String) {
    let mut colours = Colours::new();
    out.push_str("<details class=\"fold\"><summary>System prompt</summary><pre class=\"plain\">");
    show(&mask.text(&setting.system), out);
    out.push_str("</pre></details>");
    if setting.tools.is_empty() {
        return;
    }
    let count = counted(setting.tools.len() as u64, "tool");
    out.push_str(&format!(
        "<details class=\"fold\"><summary>{count}</summary><dl class=\"tools\">"
    ));
    for tool in &*setting.tools {
        out.push_str("<dt>");
        show(&tool.name, out);
        out.push_str("</dt><dd><p>");
        show(&mask.text(&tool.description), out);
        out.push_str("</p>");
        let schema = serde_json::to_string_pretty(&tool.parameters).unwrap_or_default();
        block("json", &visible(&mask.text(&schema)), &mut colours, out);
        out.push_str("</dd>");
    }
    out.push_str("</dl></details>");
}
