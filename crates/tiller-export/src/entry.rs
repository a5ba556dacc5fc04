//! Renders one entry as an article of the page, and as a line of the tree.

use serde_json::Value;
use tiller_agent::message::{
    AssistantMessage, Block, Content, CustomMessage, Message, StopReason, Usage, text_of,
};
use tiller_session::{Body, Entry, LEAF_MARK};

use crate::calls::Calls;
use crate::highlight::Colours;
use crate::markdown::{Breaks, markdown};
use crate::scan::EntryKind;
use crate::text::{self, brief, dollars, escape, one_line, show, shown, unmarked};
use crate::time::clock;
use crate::tool;

/// The longest line of an entry in the tree.
const PREVIEW_CHARS: usize = 80;
/// How much of a folded text is shown beside its title.
const FIRST_CHARS: usize = 120;

/// Renders entries, in the order of the page.
pub(crate) struct EntryRenderer {
    pub colours: Colours,
    calls: Calls,
}

/// What is known about an entry without reading its line.
pub(crate) struct EntryMeta<'a> {
    /// Its index in the file.
    pub at: usize,
    pub id: &'a str,
    pub kind: EntryKind,
    pub label: Option<&'a str>,
}

/// An entry's line in the tree.
#[derive(Debug, PartialEq)]
pub(crate) struct Preview {
    pub text: String,
    /// An answer that only calls tools.
    pub is_only_calls: bool,
    pub is_failed: bool,
}

impl EntryRenderer {
    pub(crate) fn new(calls: Calls) -> EntryRenderer {
        EntryRenderer { colours: Colours::new(), calls }
    }

    /// Appends the article to `out`. Entry and line are already masked, and absent if the line is
    /// damaged.
    pub(crate) fn article(
        &mut self,
        meta: &EntryMeta<'_>,
        entry: Option<&Entry>,
        line: Option<&str>,
        out: &mut String,
    ) -> Preview {
        out.push_str("<article class=\"e ");
        out.push_str(meta.kind.class());
        // Filled in when the body is known.
        let class_end = out.len();
        out.push_str("\" id=\"entry-");
        escape(meta.id, out);
        out.push_str("\">");
        let mut article =
            Article { meta, entry, renderer: self, is_only_calls: false, is_failed: false, out };
        let text = article.body(line);
        let Article { is_only_calls, is_failed, .. } = article;
        out.push_str("</article>\n");
        for (is_so, class) in [(is_only_calls, " calls"), (is_failed, " err")] {
            if is_so {
                out.insert_str(class_end, class);
            }
        }
        if meta.label.is_some() {
            out.insert_str(class_end, " labelled");
        }
        let text = one_line(&text, PREVIEW_CHARS);
        Preview { text, is_only_calls, is_failed }
    }
}

/// An article being rendered.
struct Article<'a> {
    meta: &'a EntryMeta<'a>,
    entry: Option<&'a Entry>,
    renderer: &'a mut EntryRenderer,
    is_only_calls: bool,
    is_failed: bool,
    out: &'a mut String,
}

impl Article<'_> {
    /// Writes the content and returns its line for the tree.
    fn body(&mut self, line: Option<&str>) -> String {
        let raw = || pretty(&serde_json::from_str(line?).ok()?);
        let Some(entry) = self.entry else {
            let data = raw();
            return self.note(
                "damaged",
                "This line of the session file cannot be read.",
                data.as_deref(),
            );
        };
        match &entry.body {
            Some(Body::Message(message)) => self.message(message),
            Some(Body::CustomMessage(custom)) => self.custom(custom),
            Some(Body::Compaction(compaction)) => {
                let before = format!("{} tokens before", brief(compaction.tokens_before));
                self.summary("Compaction", &before, &compaction.summary)
            }
            Some(Body::BranchSummary(branch)) => {
                self.summary("Branch summary", "", &branch.summary)
            }
            Some(Body::ModelChange { provider, model_id }) => {
                let name = format!("{provider}/{model_id}");
                self.note("Model", &name, None);
                name
            }
            Some(Body::ThinkingLevelChange { level }) => self.note("Thinking", level.name(), None),
            Some(Body::SessionInfo { name }) => self.note("Name", name, None),
            Some(Body::TtsrInjection { rules }) => {
                let what = format!("the model was reminded of {}", rules.join(", "));
                self.note("Rules", &what, None)
            }
            Some(Body::Label { label, .. }) => {
                self.note("Label", label.as_deref().unwrap_or("taken away"), None)
            }
            Some(Body::ContextEdit { replacement, .. }) => {
                let what = if replacement.is_some() { "replaced" } else { "hidden" };
                self.note("Context", &format!("an earlier entry was {what} for the model"), None)
            }
            Some(Body::Usage(usage)) => {
                let spent = format!("{} at {}/{}", usage.kind, usage.provider, usage.model);
                self.note("Usage", &spent, None)
            }
            Some(Body::Custom { custom_type, .. }) if custom_type == LEAF_MARK => {
                self.note("Navigation", "the conversation continues from here", None)
            }
            Some(Body::Custom { custom_type, data }) => {
                self.note(custom_type, "", data.as_ref().and_then(pretty).as_deref())
            }
            // An unknown entry is shown as it is.
            None => self.note(&entry.kind, "", raw().as_deref()),
        }
    }

    fn message(&mut self, message: &Message) -> String {
        match message {
            Message::User(user) => {
                self.head("User", "");
                let text = self.content(&user.content, Breaks::Kept);
                match SkillMention::read(&text) {
                    Some(skill) => format!("{}: {}", skill.name, skill.rest),
                    None => unmarked(&text),
                }
            }
            Message::Assistant(answer) => self.answer(answer),
            Message::ToolResult(result) => {
                self.is_failed = result.is_error;
                let at = self.label() + &self.at();
                let EntryRenderer { calls, colours } = &mut *self.renderer;
                let call = calls.of_result(self.meta.at, &result.tool_call_id);
                tool::card(call.as_ref(), result, colours, &at, self.out);
                match &call {
                    Some(call) => tool::summary(call),
                    None => format!("{}: {}", result.tool_name, text_of(&result.content)),
                }
            }
            Message::BashExecution(bash) => {
                self.head(
                    "Shell",
                    if bash.exclude_from_context { "hidden from the model" } else { "" },
                );
                tool::shell(bash, &mut self.renderer.colours, self.out);
                self.is_failed = bash.exit_code.is_some_and(|code| code != 0);
                format!("$ {}", bash.command)
            }
            Message::Custom(custom) => self.custom(custom),
            Message::CompactionSummary(summary) => {
                let before = format!("{} tokens before", brief(summary.tokens_before));
                self.summary("Compaction", &before, &summary.summary)
            }
            Message::BranchSummary(branch) => self.summary("Branch summary", "", &branch.summary),
        }
    }

    fn answer(&mut self, answer: &AssistantMessage) -> String {
        self.head("Assistant", &cost(&answer.usage, &answer.model));
        let mut preview = String::new();
        let mut has_text = false;
        for block in &answer.content {
            match block {
                Block::Text { text, .. } if text.trim().is_empty() => {}
                Block::Text { text, .. } => {
                    self.markdown(text, Breaks::Soft);
                    if !has_text {
                        preview = unmarked(text);
                    }
                    has_text = true;
                }
                Block::Thinking { thinking, redacted, .. } => self.thinking(thinking, *redacted),
                Block::Image { data, mime_type } => tool::image(data, mime_type, self.out),
                Block::ToolCall(call) => {
                    let EntryRenderer { calls, colours } = &mut *self.renderer;
                    if !calls.keep(self.meta.at, call) {
                        tool::unanswered(call, colours, self.out);
                    }
                }
            }
        }
        match (answer.stop_reason, &answer.error_message) {
            (_, Some(why)) => {
                self.aside("error", why);
                if let Some(hint) = &answer.error_hint {
                    self.aside("error", hint);
                }
            }
            (StopReason::Aborted, None) => self.aside("error", "Aborted"),
            (StopReason::Length, None) => self.aside("error", "Cut off at the output limit"),
            _ => {}
        }
        self.is_failed = answer.stop_reason == StopReason::Error;
        if has_text {
            return preview;
        }
        // The calls have their own lines in the tree, with their results.
        let names: Vec<&str> = answer.tool_calls().map(|call| call.name.as_str()).collect();
        self.is_only_calls = !names.is_empty();
        match &answer.error_message {
            Some(why) if self.is_failed || names.is_empty() => why.clone(),
            _ if names.is_empty() => String::new(),
            _ => format!("→ {}", names.join(", ")),
        }
    }

    fn custom(&mut self, custom: &CustomMessage) -> String {
        self.head(&custom.custom_type, "");
        unmarked(&self.content(&custom.content, Breaks::Soft))
    }

    fn summary(&mut self, title: &str, aside: &str, text: &str) -> String {
        self.head(title, aside);
        let words = unmarked(text);
        self.out.push_str("<details class=\"fold glance\"><summary>Summary <span class=\"first\">");
        show(&one_line(&words, FIRST_CHARS), self.out);
        self.out.push_str("</span></summary>");
        self.markdown(text, Breaks::Soft);
        self.out.push_str("</details>");
        format!("{title}: {words}")
    }

    fn thinking(&mut self, text: &str, is_redacted: bool) {
        if is_redacted {
            self.aside("hint", "Thinking, hidden by the provider");
            return;
        }
        if text.trim().is_empty() {
            return;
        }
        self.out.push_str("<details class=\"think\"><summary>Thinking <span class=\"first\">");
        show(&one_line(&unmarked(text), FIRST_CHARS), self.out);
        self.out.push_str("</span></summary>");
        self.markdown(text, Breaks::Soft);
        self.out.push_str("</details>");
    }

    fn content(&mut self, content: &Content, breaks: Breaks) -> String {
        match content {
            Content::Text(text) => self.markdown(text, breaks),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text { text, .. } => self.markdown(text, breaks),
                        Block::Image { data, mime_type } => tool::image(data, mime_type, self.out),
                        Block::Thinking { .. } | Block::ToolCall(_) => {}
                    }
                }
            }
        }
        let text = content.text();
        if text.trim().is_empty() { "(image)".to_owned() } else { text }
    }

    fn markdown(&mut self, text: &str, breaks: Breaks) {
        let Some(skill) = SkillMention::read(text).filter(|_| breaks == Breaks::Kept) else {
            return self.prose(text, breaks);
        };
        self.out.push_str("<details class=\"fold\"><summary>Skill ");
        show(skill.name, self.out);
        self.out.push_str("</summary>");
        self.prose(skill.text, Breaks::Soft);
        self.out.push_str("</details>");
        if !skill.rest.is_empty() {
            self.prose(skill.rest, breaks);
        }
    }

    fn prose(&mut self, text: &str, breaks: Breaks) {
        self.out.push_str("<div class=\"md\" dir=\"auto\">");
        markdown(text, breaks, &mut self.renderer.colours, self.out);
        self.out.push_str("</div>");
    }

    fn aside(&mut self, class: &str, text: &str) {
        self.out.push_str("<p class=\"");
        self.out.push_str(class);
        self.out.push_str("\">");
        show(text, self.out);
        self.out.push_str("</p>");
    }

    fn head(&mut self, title: &str, aside: &str) {
        self.out.push_str("<header><h2>");
        show(title, self.out);
        self.out.push_str("</h2>");
        let label = self.label();
        self.out.push_str(&label);
        if !aside.is_empty() {
            self.out.push_str("<span class=\"aside\">");
            show(aside, self.out);
            self.out.push_str("</span>");
        }
        let at = self.at();
        self.out.push_str(&at);
        self.out.push_str("</header>");
    }

    /// A line of bookkeeping, with data to unfold if there is any.
    fn note(&mut self, title: &str, text: &str, data: Option<&str>) -> String {
        self.head(title, text);
        if let Some(data) = data {
            self.out.push_str(
                "<details class=\"fold\"><summary>Data</summary><pre class=\"code\"><code>",
            );
            self.renderer.colours.code("json", &text::visible(data), self.out);
            self.out.push_str("</code></pre></details>");
        }
        format!("{title} {text}")
    }

    fn label(&self) -> String {
        let label =
            self.meta.label.map(|label| format!("<span class=\"label\">{}</span>", shown(label)));
        label.unwrap_or_default()
    }

    /// The time, which is also the link to the entry.
    fn at(&self) -> String {
        let timestamp = self.entry.map(|entry| entry.timestamp.as_str()).unwrap_or_default();
        let id = shown(self.meta.id);
        match clock(timestamp) {
            Some(clock) => format!(
                "<a class=\"at\" href=\"#entry-{id}\" title=\"Link to this entry\"><time datetime=\"{}\">{clock}</time></a>",
                shown(timestamp),
            ),
            None => {
                format!("<a class=\"at\" href=\"#entry-{id}\" title=\"Link to this entry\">#</a>")
            }
        }
    }
}

/// A skill at the beginning of a user message, which the user called by name.
struct SkillMention<'t> {
    name: &'t str,
    text: &'t str,
    /// The arguments of the skill.
    rest: &'t str,
}

impl SkillMention<'_> {
    fn read(text: &str) -> Option<SkillMention<'_>> {
        let (name, text) = text.strip_prefix("<skill name=\"")?.split_once('"')?;
        let (_, text) = text.split_once(">\n")?;
        let (text, rest) = text.split_once("\n</skill>")?;
        Some(SkillMention { name, text, rest: rest.trim() })
    }
}

fn cost(usage: &Usage, model: &str) -> String {
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    if input == 0 && usage.output == 0 {
        return model.to_owned();
    }
    let tokens = format!("{model} · ↑{} ↓{}", brief(input), brief(usage.output));
    if usage.cost.total > 0.0 {
        format!("{tokens} · {}", dollars(usage.cost.total))
    } else {
        tokens
    }
}

fn pretty(value: &Value) -> Option<String> {
    serde_json::to_string_pretty(value).ok()
}
