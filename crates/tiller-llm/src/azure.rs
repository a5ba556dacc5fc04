//! The Responses API on Azure: the same format, with another URL and another header for the key.
//!
//! `model` in the body is what Azure calls a deployment: the model's id, unless the option
//! `azureDeploymentName` sets another. The `v1` API needs no version; a base URL with one of the
//! older dated versions (`?api-version=2025-04-01-preview`) gets the path that belongs to them.

use tiller_agent::model::Model;
use tiller_agent::provider::{ProviderError, Request};

use crate::compat;
use crate::openai_responses::{self, request};
use crate::request_options::{RequestOptions, Secret};
use crate::stream::{Api, HttpRequest};

pub(crate) struct AzureResponses;

impl Api for AzureResponses {
    type Decoder = openai_responses::ResponsesDecoder;

    fn post(request: &Request, access: &RequestOptions) -> Result<HttpRequest, ProviderError> {
        let url = url(&request.model.base_url)?;
        let key = access.key.as_ref().map(Secret::expose);
        let headers = key.map(|key| ("api-key", key.to_owned())).into_iter().collect();
        Ok(HttpRequest {
            url,
            headers,
            body: request::body(request, deployment(&request.model), access)?,
        })
    }

    fn decoder(request: &Request) -> openai_responses::ResponsesDecoder {
        openai_responses::ResponsesDecoder::new(&request.model.id)
    }

    fn error_text(status: u16, body: &str) -> String {
        openai_responses::error_text("Azure OpenAI", status, body)
    }
}

fn deployment(model: &Model) -> &str {
    compat::text(model, "azureDeploymentName").unwrap_or(&model.id)
}

/// Accepts the resource's URL as well as the longer ones shown in Azure's portal.
fn url(base_url: &str) -> Result<String, ProviderError> {
    let (path, query) = match base_url.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (base_url, String::new()),
    };
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("/responses").unwrap_or(path);
    if path.is_empty() {
        return Err(ProviderError::fatal(
            "every Azure resource has its own address: set the provider's baseUrl \
             to https://RESOURCE.openai.azure.com",
        ));
    }
    let resource = path.strip_suffix("/v1").unwrap_or(path);
    let resource = resource.strip_suffix("/openai").unwrap_or(resource);
    let dated = query.split(['?', '&']).any(|pair| {
        let version = pair.strip_prefix("api-version=");
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    });
    // Behind a gateway the API may have any path; one that ends in `v1` is used unchanged.
    let root = match (dated, path.ends_with("/v1")) {
        (false, true) => path.to_owned(),
        (false, false) => format!("{resource}/openai/v1"),
        (true, _) => format!("{resource}/openai"),
    };
    Ok(format!("{root}/responses{query}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing;

    fn check(base_url: &str, expect: Expect) {
        let printed = url(base_url).unwrap_or_else(|err| format!("{err:?}"));
        expect.assert_eq(&printed);
    }

    #[test]
    fn addresses() {
        check(
            "https://r.openai.azure.com",
            expect!["https://r.openai.azure.com/openai/v1/responses"],
        );
        check(
            "https://r.openai.azure.com/",
            expect!["https://r.openai.azure.com/openai/v1/responses"],
        );
        check(
            "https://r.openai.azure.com/openai",
            expect!["https://r.openai.azure.com/openai/v1/responses"],
        );
        check(
            "https://r.openai.azure.com/openai/v1/",
            expect!["https://r.openai.azure.com/openai/v1/responses"],
        );
        check(
            "https://r.openai.azure.com/openai/v1/responses",
            expect!["https://r.openai.azure.com/openai/v1/responses"],
        );
        check(
            "https://r.openai.azure.com?api-version=preview",
            expect!["https://r.openai.azure.com/openai/v1/responses?api-version=preview"],
        );
        check(
            "https://r.openai.azure.com/openai?api-version=2025-04-01-preview",
            expect!["https://r.openai.azure.com/openai/responses?api-version=2025-04-01-preview"],
        );
        check(
            "https://gateway.example/team/v1",
            expect!["https://gateway.example/team/v1/responses"],
        );
        check(
            "",
            expect![[
                r#"Fatal { message: "every Azure resource has its own address: set the provider's baseUrl to https://RESOURCE.openai.azure.com" }"#
            ]],
        );
    }

    #[test]
    fn a_request() {
        let mut request = testing::request(vec![testing::user("hi")]);
        let mut model = testing::model();
        model.base_url = "https://r.openai.azure.com".into();
        model.compat = Some(serde_json::json!({"azureDeploymentName": "ours"}));
        request.model = Arc::new(model);
        let HttpRequest { url, headers, body } =
            AzureResponses::post(&request, &RequestOptions::with_key("azure-key")).unwrap();
        let body = String::from_utf8(body).unwrap();
        expect![[r#"
            https://r.openai.azure.com/openai/v1/responses
            [("api-key", "azure-key")]
            {"model":"ours","input":[{"role":"developer","content":"Be brief."},{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"stream":true,"prompt_cache_key":"session-1","store":false,"max_output_tokens":8192,"reasoning":{"effort":"none"}}
        "#]].assert_eq(&format!("{url}\n{headers:?}\n{body}\n"));
    }

    #[test]
    fn errors_name_the_vendor() {
        let body = r#"{"error":{"code":"DeploymentNotFound","message":"no such deployment"}}"#;
        expect!["Azure OpenAI API error (404): 404 no such deployment"]
            .assert_eq(&AzureResponses::error_text(404, body));
    }
}
