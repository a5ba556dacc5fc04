//! Azure's own variables: every resource has its own address, and calls models what it likes.

use serde_json::{Map, Value as Json};
use tiller_agent::model::Model;

pub(super) const API: &str = "azure-openai-responses";

/// The provider, and how pi calls it since 1.0.3.
const PROVIDER: &str = "azure-openai-responses";
const NEWER_NAME: &str = "azure";

/// A provider's name as the catalogue has it.
pub(crate) fn canonical(provider: &str) -> &str {
    if provider.eq_ignore_ascii_case(NEWER_NAME) { PROVIDER } else { provider }
}

/// The other name that files may have a provider under.
pub(crate) fn newer_name(provider: &str) -> Option<&'static str> {
    (provider == PROVIDER).then_some(NEWER_NAME)
}

/// Where a base URL is missing, the name of the resource will do.
pub(super) const RESOURCE_NAME: &str = "AZURE_OPENAI_RESOURCE_NAME";

/// The address of the resource with this name.
pub(super) fn address(resource: &str) -> String {
    format!("https://{}.openai.azure.com/openai/v1", resource.trim())
}

/// Puts the version of the API and the name of the deployment in their places, unless the model
/// has its own there.
pub(super) fn settle(model: &mut Model, variable: impl Fn(&str) -> Option<String>) {
    let version = variable("AZURE_OPENAI_API_VERSION");
    // `v1` is what it is when nobody says anything.
    if let Some(version) = version.filter(|version| version.trim() != "v1")
        && !model.base_url.contains("api-version=")
    {
        let joint = if model.base_url.contains('?') { '&' } else { '?' };
        model.base_url += &format!("{joint}api-version={}", version.trim());
    }
    let map = variable("AZURE_OPENAI_DEPLOYMENT_NAME_MAP").unwrap_or_default();
    if let Some(name) = deployment(&map, &model.id) {
        let compat = model.compat.get_or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(switches) = compat {
            switches.entry("azureDeploymentName").or_insert(name.into());
        }
    }
}

/// Looks a model up in `MODEL=DEPLOYMENT,MODEL=DEPLOYMENT`.
fn deployment<'a>(map: &'a str, id: &str) -> Option<&'a str> {
    map.split(',').find_map(|pair| {
        let (model, name) = pair.split_once('=')?;
        (model.trim() == id && !name.trim().is_empty()).then_some(name.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_are_found_by_model() {
        let map = "gpt-4=my-gpt4, gpt-4o = prod ,gpt-5=,broken,=x";
        assert_eq!(deployment(map, "gpt-4"), Some("my-gpt4"));
        assert_eq!(deployment(map, "gpt-4o"), Some("prod"));
        for id in ["gpt-5", "broken", "gpt", "GPT-4"] {
            assert_eq!(deployment(map, id), None, "{id}");
        }
    }
}
