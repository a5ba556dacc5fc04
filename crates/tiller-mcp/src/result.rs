//! From a server's result to the result of a tool: texts, images, resources, structured content,
//! errors. What the model gets is bounded; a longer text is stored in a file that the result names.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value};
use tiller_agent::message::Block;
use tiller_agent::tool::{Failure, ToolOutput, ToolResult};
use tiller_agent::truncate::size_text;
use tiller_tools::image::{Resize, normalise};

/// The most text that the model gets of one result.
const TEXT_MAX_BYTES: usize = 20 * 1024;
/// The most images that the model gets of one result.
const IMAGES_MAX: usize = 20;

/// A result, sorted by what becomes of its parts.
#[derive(Debug, Default, PartialEq)]
struct Parts {
    text: String,
    /// Base64 data.
    images: Vec<String>,
    structured: Option<Value>,
    is_error: bool,
}

/// Makes the result of a tool call. `tool` is the name that the model has called.
pub(crate) async fn tool_result(tool: &str, result: CallToolResult, resize: Resize) -> ToolResult {
    let Parts { mut text, images, structured, is_error } = Parts::of(result);
    let mut blocks = Vec::new();
    let omitted = images.len().saturating_sub(IMAGES_MAX);
    for data in images.into_iter().take(IMAGES_MAX) {
        let normalised = normalise(data, resize).await;
        for note in normalised.notes {
            add_line(&mut text, &note);
        }
        blocks.extend(normalised.image);
    }
    if omitted > 0 {
        add_line(&mut text, &format!("[{omitted} more images omitted]"));
    }
    let text = bounded(text).await;
    if is_error {
        let message = match text.trim() {
            "" => format!("{tool} failed, and the server does not say why"),
            _ => text,
        };
        return Err(Failure { message, images: blocks, details: structured });
    }
    if !text.is_empty() || blocks.is_empty() {
        let text = if text.is_empty() { "(no output)".to_owned() } else { text };
        blocks.insert(0, Block::text(text));
    }
    let mut other = Map::new();
    if let Some(structured) = structured {
        other.insert("structuredContent".to_owned(), structured);
    }
    Ok(ToolOutput { content: blocks, other, ..ToolOutput::default() })
}

impl Parts {
    fn of(result: CallToolResult) -> Parts {
        let mut parts = Parts {
            is_error: result.is_error.unwrap_or_default(),
            structured: result.structured_content,
            ..Parts::default()
        };
        for block in result.content {
            parts.add(block);
        }
        // Servers should repeat structured content as text. Without the text, the model would learn
        // nothing.
        if let Some(structured) = &parts.structured
            && parts.text.is_empty()
            && parts.images.is_empty()
        {
            parts.text = serde_json::to_string_pretty(structured).unwrap_or_default();
        }
        parts
    }

    fn add(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => add_line(&mut self.text, &text.text),
            ContentBlock::Image(image) => self.images.push(image.data),
            ContentBlock::Audio(audio) => {
                let size = size_text(audio.data.len() / 4 * 3);
                let note = format!("[audio omitted: {}, {size}]", audio.mime_type);
                add_line(&mut self.text, &note);
            }
            ContentBlock::Resource(resource) => self.add_resource(resource.resource),
            ContentBlock::ResourceLink(link) => {
                let mut note = format!("[resource {}: {}", link.name, link.uri);
                if let Some(mime) = &link.mime_type {
                    note += &format!(" ({mime})");
                }
                if let Some(description) = &link.description {
                    note += &format!(" {description}");
                }
                note += "]";
                add_line(&mut self.text, &note);
            }
            _ => add_line(&mut self.text, "[content of an unknown type omitted]"),
        }
    }

    fn add_resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                add_line(&mut self.text, &format!("[resource {uri}]"));
                add_line(&mut self.text, &text);
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime = mime_type.unwrap_or_else(|| "unknown type".to_owned());
                if mime.starts_with("image/") {
                    add_line(&mut self.text, &format!("[resource {uri}]"));
                    self.images.push(blob);
                } else {
                    let size = size_text(blob.len() / 4 * 3);
                    let note = format!("[resource {uri} omitted: binary, {mime}, {size}]");
                    add_line(&mut self.text, &note);
                }
            }
            _ => add_line(&mut self.text, "[resource of an unknown type omitted]"),
        }
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

/// The text, or its beginning and its end and the file with all of it.
pub(crate) async fn bounded(text: String) -> String {
    let Some((head, tail)) = ends(&text, TEXT_MAX_BYTES) else { return text };
    let omitted = text[head.len()..text.len() - tail.len()].chars().count();
    let mut shown = format!("{head}…{omitted} chars truncated…{tail}");
    let saved = tokio::task::spawn_blocking(move || tiller_tools::output::save("mcp", &text)).await;
    let note = match saved {
        Ok(Ok(path)) => format!("[Full output: {}]", path.display()),
        Ok(Err(err)) => format!("[Full output could not be saved: {err}]"),
        Err(crash) => format!("[Full output could not be saved: {crash}]"),
    };
    add_line(&mut shown, &note);
    shown
}

/// The beginning and the end of a text that is longer than `max` bytes, together `max` long.
fn ends(text: &str, max: usize) -> Option<(&str, &str)> {
    if text.len() <= max {
        return None;
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    Some((&text[..head], &text[tail..]))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{from_value, json};

    use super::*;

    async fn check(result: Value, expected: Expect) {
        let result: CallToolResult = from_value(result).unwrap();
        let printed = match tool_result("mcp__s__t", result, Resize::Never).await {
            Ok(output) => serde_json::to_string(&output).unwrap(),
            Err(failure) => format!("! {} {:?}", failure.message, failure.details),
        };
        expected.assert_eq(&printed);
    }

    #[tokio::test]
    async fn texts_are_joined_and_structured_content_goes_to_the_client() {
        check(
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "structuredContent": {"n": 1}}),
            expect![[r#"{"content":[{"type":"text","text":"a\nb"}],"structuredContent":{"n":1}}"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn structured_content_alone_is_shown_to_the_model() {
        check(
            json!({"content": [], "structuredContent": {"n": 1}}),
            expect![[r#"{"content":[{"type":"text","text":"{\n  \"n\": 1\n}"}],"structuredContent":{"n":1}}"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn empty_result_says_so() {
        check(
            json!({"content": []}),
            expect![[r#"{"content":[{"type":"text","text":"(no output)"}]}"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn result_that_is_an_error_is_a_failure() {
        check(
            json!({"content": [{"type": "text", "text": "no such row"}], "isError": true}),
            expect!["! no such row None"],
        )
        .await;
        check(
            json!({"content": [], "isError": true}),
            expect!["! mcp__s__t failed, and the server does not say why None"],
        )
        .await;
    }

    #[tokio::test]
    async fn what_is_no_text_is_named() {
        check(
            json!({"content": [
                {"type": "resource_link", "name": "log", "uri": "file:///l", "mimeType": "text/plain"},
                {"type": "resource", "resource": {"uri": "x://t", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "x://b", "blob": "AAAA", "mimeType": "a/b"}},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "image", "data": "bm9uZQ==", "mimeType": "image/png"},
            ]}),
            expect![[r#"{"content":[{"type":"text","text":"[resource log: file:///l (text/plain)]\n[resource x://t]\ninside\n[resource x://b omitted: binary, a/b, 3B]\n[audio omitted: audio/wav, 3B]\n[Image omitted: could not be converted to a supported inline image format.]"}]}"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn image_passes() {
        const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let result =
            json!({"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]});
        let result: CallToolResult = from_value(result).unwrap();
        let output = tool_result("t", result, Resize::Never).await.unwrap();
        assert!(
            matches!(&output.content[..], [Block::Image { mime_type, .. }] if mime_type == "image/png")
        );
    }

    #[tokio::test]
    async fn long_text_keeps_its_ends_and_is_stored() {
        let long = "é".repeat(20_000);
        let shown = bounded(long.clone()).await;
        let (head, rest) = shown.split_once("…9760 chars truncated…").unwrap();
        assert_eq!(head, "é".repeat(5120));
        let (tail, note) = rest.split_once('\n').unwrap();
        assert_eq!(tail, "é".repeat(5120));
        let path = note.strip_prefix("[Full output: ").unwrap().strip_suffix(']').unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), long);
        std::fs::remove_file(path).unwrap();
    }
}
