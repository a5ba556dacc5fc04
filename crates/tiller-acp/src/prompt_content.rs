//! The content of `session/prompt`, as the text and the images of a prompt.

use agent_client_protocol_schema::v1::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, Error, ResourceLink,
};
use tiller_protocol::Image;

use crate::json_rpc::invalid_params;

/// A prompt of the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PromptContent {
    pub(crate) text: String,
    pub(crate) images: Vec<Image>,
}

impl PromptContent {
    /// Joins the blocks. A link stands where the client has put it, as a path if it is a file's; the
    /// texts of embedded resources follow at the end.
    pub(crate) fn new(blocks: Vec<ContentBlock>) -> Result<PromptContent, Error> {
        let mut prompt = PromptContent::default();
        let mut resources = String::new();
        for block in blocks {
            match block {
                ContentBlock::Text(text) => prompt.text.push_str(&text.text),
                ContentBlock::Image(image) => {
                    prompt.images.push(Image::new(image.data, image.mime_type));
                }
                ContentBlock::ResourceLink(link) => prompt.text.push_str(&mention(&link)),
                ContentBlock::Resource(resource) => prompt.embed(resource, &mut resources)?,
                ContentBlock::Audio(_) => {
                    return Err(invalid_params("a prompt with audio is not supported"));
                }
                _ => return Err(invalid_params("the prompt has a block of an unknown type")),
            }
        }
        prompt.text.push_str(&resources);
        if prompt.text.trim().is_empty() && prompt.images.is_empty() {
            return Err(invalid_params("the prompt is empty: send some text, or an image"));
        }
        Ok(prompt)
    }

    /// How much memory it takes while it waits.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.images.iter().map(|image| image.data.len()).sum::<usize>()
    }

    fn embed(&mut self, resource: EmbeddedResource, resources: &mut String) -> Result<(), Error> {
        match resource.resource {
            EmbeddedResourceResource::TextResourceContents(contents) => {
                self.text.push_str(&place(&contents.uri));
                let text = &contents.text;
                resources.push_str(&format!(
                    "\n\n<context uri=\"{}\">\n{text}\n</context>",
                    contents.uri
                ));
            }
            EmbeddedResourceResource::BlobResourceContents(contents) => {
                let mime_type = contents.mime_type.unwrap_or_default();
                if !mime_type.starts_with("image/") {
                    return Err(invalid_params(format!(
                        "the resource {} is neither text nor an image; send a link to it instead",
                        contents.uri
                    )));
                }
                self.text.push_str(&place(&contents.uri));
                self.images.push(Image::new(contents.blob, mime_type));
            }
            _ => return Err(invalid_params("the prompt has a resource of an unknown type")),
        }
        Ok(())
    }
}

/// A link in a text for the model.
fn mention(link: &ResourceLink) -> String {
    match link.uri.strip_prefix("file://") {
        Some(_) => place(&link.uri),
        None => format!("[{}]({})", link.name, link.uri),
    }
}

/// The path of a file, else the URI.
fn place(uri: &str) -> String {
    uri.strip_prefix("file://").map_or_else(|| uri.to_owned(), percent_decoded)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(blocks: serde_json::Value, expected: Expect) {
        let blocks = serde_json::from_value(blocks).unwrap();
        expected.assert_eq(&match PromptContent::new(blocks) {
            Ok(prompt) => format!("{} + {} images", prompt.text, prompt.images.len()),
            Err(error) => error.message,
        });
    }

    #[test]
    fn blocks_become_text_and_images() {
        check(
            json!([
                {"type": "text", "text": "Compare "},
                {"type": "resource_link", "name": "a.rs", "uri": "file:///w/a.rs"},
                {"type": "text", "text": " with "},
                {"type": "resource_link", "name": "docs", "uri": "https://example.com/"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            ]),
            expect!["Compare /w/a.rs with [docs](https://example.com/) + 1 images"],
        );
        check(
            json!([
                {"type": "text", "text": "Explain "},
                {"type": "resource", "resource": {"uri": "file:///w/a.rs", "text": "fn a() {}"}},
                {"type": "text", "text": "."},
                {"type": "resource", "resource": {"uri": "b.png", "blob": "AAAA", "mimeType": "image/png"}},
            ]),
            expect![[r#"
                Explain /w/a.rs.b.png

                <context uri="file:///w/a.rs">
                fn a() {}
                </context> + 1 images"#]],
        );
        check(json!([{"type": "text", "text": "/fix it"}]), expect!["/fix it + 0 images"]);
        check(
            json!([{"type": "resource_link", "name": "b", "uri": "file:///w/a%20b%zz%"}]),
            expect!["/w/a b%zz% + 0 images"],
        );
    }

    #[test]
    fn content_that_cannot_be_sent_is_refused() {
        check(json!([]), expect!["the prompt is empty: send some text, or an image"]);
        check(
            json!([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]),
            expect!["a prompt with audio is not supported"],
        );
        check(
            json!([{"type": "resource", "resource": {"uri": "file:///a.zip", "blob": "AAAA"}}]),
            expect![
                "the resource file:///a.zip is neither text nor an image; send a link to it instead"
            ],
        );
    }
}
