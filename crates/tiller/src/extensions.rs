//! Extensions: the user's and the project's own JavaScript that changes what tiller does.

pub(crate) mod model_stream;
pub(crate) mod decoder;
pub(crate) mod find;
pub(crate) mod flags;
pub(crate) mod offline_load;
pub(crate) mod request_hooks;
pub(crate) mod provider;
pub(crate) mod model_request;
pub(crate) mod host_api;
