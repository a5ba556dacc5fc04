//! Azure's variables: every resource has its own address and its own names for models.

use serde_json::{Map, Value as Json};
use tiller_agent::model::Model;

pub(super) const API: &str = "azure-openai-responses";

/// The provider, and its name in pi since 1.0.3.
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

/// Used to build the base URL if none is set.
pub(super) const RESOURCE_NAME: &str = "AZURE_OPENAI_RESOURCE_NAME";

/// The base URL of the resource with this name.
pub(super) fn address(resource: &str) -> String {
    format!("https://{}.openai.azure.com/openai/v1", resource.trim())
}

/// Adds the API version and the deployment name, unless the model sets its own.
pub(super) fn apply_variables(model: &mut Model, variable: impl Fn(&str) -> Option<String>) {
    let version = variable("AZURE_OPENAI_API_VERSION");
    // `v1` is the default.
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

/// Finds a model's deployment in `MODEL=DEPLOYMENT,MODEL=DEPLOYMENT`.
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
    fn deployment_map_is_searched_by_model() {
        let map = "gpt-4=my-gpt4, gpt-4o = prod ,gpt-5=,broken,=x";
        assert_eq!(deployment(map, "gpt-4"), Some("my-gpt4"));
        assert_eq!(deployment(map, "gpt-4o"), Some("prod"));
        for id in ["gpt-5", "broken", "gpt", "GPT-4"] {
            assert_eq!(deployment(map, id), None, "{id}");
        }
    }
}
