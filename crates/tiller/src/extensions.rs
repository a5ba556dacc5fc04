//! Extensions: JavaScript of the user's and the project's own that changes what tiller does.

pub(crate) mod answer;
pub(crate) mod decoder;
pub(crate) mod find;
pub(crate) mod flags;
pub(crate) mod listing;
pub(crate) mod onlooker;
pub(crate) mod provider;
pub(crate) mod question;
pub(crate) mod world;
