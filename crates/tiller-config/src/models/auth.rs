//! Authentication of model requests: keys and headers, resolved when a request is made.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::StreamExt;
use tiller_agent::model::Model;
use tiller_agent::provider::{EventStream, Provider, ProviderError, Request};
use tiller_llm::{HintSource, Interceptor, RequestOptions, Secret};

use super::extension_providers::{RegisteredProvider, StreamsAnswers};
use super::file::Headers;
use super::hints::{AddressSource, Origins};
use super::{BUILTIN, Models, azure, bedrock};
use crate::credentials::{Aws, Key, default_variables};

/// Overrides for one request.
#[derive(Default)]
pub struct RequestOverrides {
    /// Used instead of the stored key.
    pub key: Option<String>,
    /// Sent in addition to all others, and override them.
    pub headers: BTreeMap<String, String>,
    /// Hooks that may change the request.
    pub interceptor: Option<Interceptor>,
}

/// A key and headers in plain text, for extensions that call the provider's HTTP API directly.
pub type ResolvedAuth = (Option<String>, BTreeMap<String, String>);

impl Models {
    /// Returns an error that says what to do if this model cannot be used.
    pub fn check_access(&self, model: &Model) -> Result<(), String> {
        self.check_key(model)?;
        check_address(model)
    }

    fn check_key(&self, model: &Model) -> Result<(), String> {
        if model.provider == BUILTIN {
            return Ok(());
        }
        let provider = &model.provider;
        if let Err(reason) = self.credentials.key(provider) {
            // A key would not help.
            if !tiller_llm::supports(&model.api) && self.answering_extension(model).is_none() {
                return Err(format!(
                    "{provider} cannot be used: tiller does not support its API, {}. Choose a \
                     model of another provider; `tiller --list-models` lists them.",
                    model.api
                ));
            }
            let reason = reason.map(|why| format!(" ({why})")).unwrap_or_default();
            let variable = default_variables(provider).map(|names| format!("Set {names}, store"));
            return Err(format!(
                "No API key found for {provider}{reason}.\n\n{} one with `tiller auth set \
                 {provider}`, or add an `apiKey` for `{provider}` in models.json in the agent \
                 folder.",
                variable.unwrap_or("Store".to_owned())
            ));
        }
        Ok(())
    }

    /// The provider that sends requests to this model with its key.
    pub fn provider(&self, model: &Model) -> Arc<dyn Provider> {
        let interceptor = self.interceptor.clone();
        self.provider_with(model, RequestOverrides { interceptor, ..RequestOverrides::default() })
    }

    /// A provider for this model, with overrides for one request.
    pub fn provider_with(
        &self,
        model: &Model,
        extra_headers: RequestOverrides,
    ) -> Arc<dyn Provider> {
        let builtin = self.builtin.iter().find(|builtin| {
            (&builtin.model.provider, &builtin.model.id) == (&model.provider, &model.id)
        });
        if let Some(builtin) = builtin {
            return builtin.provider.clone();
        }
        if let Some(by) = self.answering_extension(model) {
            return match self.auth_provider(model, extra_headers) {
                Ok(keyed) => Arc::new(ExtensionAnswer { auth: keyed, extension: by }),
                Err(message) => {
                    Arc::new(FailingProvider(ProviderError::Auth { message: message.into() }))
                }
            };
        }
        if !tiller_llm::supports(&model.api) {
            let why = format!("tiller does not support the API {} yet", model.api);
            return Arc::new(FailingProvider(ProviderError::fatal(why)));
        }
        match self.auth_provider(model, extra_headers) {
            Ok(keyed) => Arc::new(keyed),
            Err(message) => {
                Arc::new(FailingProvider(ProviderError::Auth { message: message.into() }))
            }
        }
    }

    fn auth_provider(
        &self,
        model: &Model,
        given: RequestOverrides,
    ) -> Result<AuthProvider, String> {
        let key = match given.key {
            Some(key) => Key::Known(key),
            None => {
                self.check_key(model)?;
                // The key was there a moment ago, when access was checked.
                let no_key = |_| format!("No API key found for {}", model.provider);
                self.credentials.key(&model.provider).map_err(no_key)?
            }
        };
        check_address(model)?;
        let described = self.file.provider(&model.provider);
        let origins = self.origins(model);
        let adviser = HintSource::new(move |model, trouble| origins.hint(model, trouble));
        Ok(AuthProvider {
            key,
            headers: self.headers(model),
            auth_header: described.is_some_and(|provider| provider.auth_header)
                || self.registered(&model.provider).is_some_and(RegisteredProvider::auth_header),
            given: given.headers,
            access: RequestOptions {
                adviser: Some(adviser),
                interceptor: given.interceptor,
                ..self.options.clone()
            },
            variables: self.credentials.variables().clone(),
            aws: self.credentials.aws().clone(),
        })
    }

    /// The key and the headers of this model, for an extension that calls the HTTP API directly.
    pub fn resolved_auth(
        &self,
        model: &Model,
    ) -> impl Future<Output = Result<ResolvedAuth, String>> + use<> {
        let keyed = self.auth_provider(model, RequestOverrides::default());
        let provider = model.provider.clone();
        let mut own = model.headers.clone();
        async move {
            let (key, headers) = keyed?.resolve(&provider).await?;
            own.extend(headers);
            Ok((key, own))
        }
    }

    /// The provider's key, if there is one.
    pub fn key_of(&self, provider: &str) -> impl Future<Output = Option<String>> + use<> {
        let (key, variables) =
            (self.credentials.key(provider), self.credentials.variables().clone());
        let provider = provider.to_owned();
        async move { key.ok()?.find(&provider, &variables).await.ok().flatten() }
    }

    /// The headers of every request to this model. Those of an extension override the others.
    fn headers(&self, model: &Model) -> Headers {
        let mut headers = if self.is_replaced(&model.provider) {
            Headers::new()
        } else {
            self.file.headers(&model.provider, &model.id)
        };
        headers.extend(
            self.registered(&model.provider).map(|b| b.headers(&model.id)).unwrap_or_default(),
        );
        headers
    }

    /// Where key and address were configured, for hints in errors.
    fn origins(&self, model: &Model) -> Origins {
        let key = self.credentials.source(&model.provider);
        let variable = || {
            if model.api == bedrock::API {
                return self.credentials.aws().address_variable().map(str::to_owned);
            }
            let entry = self.catalogue.find(&model.provider, &model.id)?;
            missing_variable(&self.catalogue.model(&entry).base_url).map(str::to_owned)
        };
        let address = if self.file.sets_address(&model.provider, &model.id) {
            AddressSource::ModelsFile
        } else {
            variable().map_or(AddressSource::Catalogue, AddressSource::Variable)
        };
        Origins { key, address }
    }

    /// Completes a model from the environment: above all, `{NAME}` in its address.
    pub(super) fn resolve_placeholders(&self, mut model: Arc<Model>) -> Arc<Model> {
        let provider = model.provider.clone();
        let variable = |name: &str| self.credentials.variable(&provider, name);
        while let Some(name) = missing_variable(&model.base_url) {
            let value = variable(name).or_else(|| match &*model.api {
                azure::API => variable(azure::RESOURCE_NAME).map(|name| azure::address(&name)),
                _ => None,
            });
            let Some(value) = value else { return model };
            // A value with braces of its own would loop forever.
            let value = value.replace(['{', '}'], "");
            let filled = model.base_url.replace(&format!("{{{name}}}"), &value);
            Arc::make_mut(&mut model).base_url = filled;
        }
        if model.api == azure::API {
            azure::apply_variables(Arc::make_mut(&mut model), variable);
        } else if model.api == bedrock::API && !self.file.sets_address(&provider, &model.id) {
            let amazon = self.credentials.aws();
            let region = variable("AWS_REGION").or_else(|| amazon.region());
            bedrock::apply_region(Arc::make_mut(&mut model), amazon.endpoint(), region.as_deref());
        }
        model
    }
}

fn check_address(model: &Model) -> Result<(), String> {
    let Some(name) = missing_variable(&model.base_url) else { return Ok(()) };
    let or = if model.api == azure::API {
        format!(" or {}", azure::RESOURCE_NAME)
    } else {
        String::new()
    };
    Err(format!("{} cannot be reached: set {name}{or} in the environment", model.provider))
}

/// The first `{NAME}` in an address that has no value.
pub(super) fn missing_variable(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once('{')?;
    rest.split_once('}').map(|(name, _)| name)
}

/// Resolves the key for each request, then sends it.
#[derive(Clone)]
struct AuthProvider {
    key: Key,
    headers: Headers,
    auth_header: bool,
    given: BTreeMap<String, String>,
    access: RequestOptions,
    variables: Arc<HashMap<String, String>>,
    aws: Arc<Aws>,
}

impl Provider for AuthProvider {
    fn stream(&self, request: Request) -> EventStream {
        let keyed = self.clone();
        Box::pin(futures_util::stream::once(keyed.ask(request)).flatten())
    }
}

impl AuthProvider {
    async fn ask(self, request: Request) -> EventStream {
        let model = request.model.clone();
        match self.access(&model.provider).await {
            Ok(access) => match tiller_llm::provider(&model, access) {
                Some(provider) => provider.stream(request),
                None => {
                    FailingProvider(ProviderError::fatal("this model's API is not implemented"))
                        .stream(request)
                }
            },
            Err(why) => {
                let message = format!("No API key for {}: {why}", model.provider);
                FailingProvider(ProviderError::Auth { message: message.into() }).stream(request)
            }
        }
    }

    async fn access(self, provider: &str) -> Result<RequestOptions, String> {
        let aws = match self.key {
            Key::Ambient => self.aws.keys().await?,
            _ => None,
        };
        let (key, headers) = self.resolve(provider).await?;
        let secret = |(name, value)| (name, Secret::new(value));
        let headers = headers.into_iter().map(secret).collect();
        Ok(RequestOptions { key: key.map(Secret::new), aws, headers, ..self.access })
    }

    async fn resolve(&self, provider: &str) -> Result<ResolvedAuth, String> {
        let key = self.key.clone().find(provider, &self.variables).await?;
        let mut headers = BTreeMap::new();
        if let Some(key) = key.as_ref().filter(|_| self.auth_header) {
            headers.insert("Authorization".to_owned(), format!("Bearer {key}"));
        }
        for (name, value) in &self.headers {
            let value = value.find(&self.variables).await;
            let value = value.map_err(|why| format!("header {name}: {why}"))?;
            headers.insert(name.clone(), value);
        }
        headers.extend(self.given.clone());
        Ok((key, headers))
    }
}

/// Resolves the key for each request, then lets an extension answer it.
struct ExtensionAnswer {
    auth: AuthProvider,
    extension: Arc<dyn StreamsAnswers>,
}

impl Provider for ExtensionAnswer {
    fn stream(&self, request: Request) -> EventStream {
        let (keyed, by) = (self.auth.clone(), self.extension.clone());
        let answer = async move {
            match keyed.resolve(&request.model.provider).await {
                Ok((key, mut headers)) => {
                    let own = request.model.headers.clone();
                    headers = own.into_iter().chain(headers).collect();
                    by.answer(request, (key, headers))
                }
                Err(why) => {
                    let message = format!("No API key for {}: {why}", request.model.provider);
                    FailingProvider(ProviderError::Auth { message: message.into() }).stream(request)
                }
            }
        };
        Box::pin(futures_util::stream::once(answer).flatten())
    }
}

/// Fails every request with this error.
struct FailingProvider(ProviderError);

impl Provider for FailingProvider {
    fn stream(&self, _request: Request) -> EventStream {
        let error = self.0.clone();
        Box::pin(futures_util::stream::once(async { Err(error) }))
    }
}
