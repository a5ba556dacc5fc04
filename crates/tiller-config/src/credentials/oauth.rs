//! Sign-ins handled by extensions: an extension derives a key from the stored sign-in and refreshes
//! it when it expires.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::auth_file::{AuthEntry, AuthFile};
use super::{json_file, lock};
use crate::models::hints::SIGN_IN_AGAIN;

/// Turns a stored sign-in into a key.
pub trait SignIn: Send + Sync {
    fn key(&self, stored: Value) -> Pin<Box<dyn Future<Output = Result<SignedIn, String>> + Send>>;

    /// Held during a refresh: of two concurrent requests, the second finds the sign-in refreshed.
    fn refresh_lock(&self) -> &tokio::sync::Mutex<()>;
}

/// The result.
pub struct SignedIn {
    pub key: String,
    /// To be stored in place of the old sign-in.
    pub renewed: Option<Value>,
}

/// Has no `Debug`, because the sign-in is secret.
#[derive(Clone)]
pub(crate) struct OauthRefresh {
    pub(super) by: Arc<dyn SignIn>,
    pub(super) file: Arc<Mutex<AuthFile>>,
}

impl OauthRefresh {
    pub(super) async fn key(self, provider: &str) -> Result<String, String> {
        let _turn = self.by.refresh_lock().lock().await;
        let (stored, path) = {
            let mut file = lock(&self.file);
            file.refresh();
            match file.entry(provider) {
                Some(AuthEntry::Oauth { json, .. }) => (json.clone(), file.path().to_owned()),
                _ => return Err("auth.json no longer has this sign-in".to_owned()),
            }
        };
        let renewal = self.by.key(stored).await;
        let SignedIn { key, renewed } =
            renewal.map_err(|why| format!("cannot refresh the sign-in: {why}. {SIGN_IN_AGAIN}"))?;
        if let Some(Value::Object(mut renewed)) = renewed {
            renewed.insert("type".to_owned(), json!("oauth"));
            let provider = provider.to_owned();
            let keeping =
                move || json_file::store_sign_in(&path, &provider, Value::Object(renewed));
            // A refresh often invalidates the old sign-in, so failing to store the new one is an
            // error.
            tokio::task::spawn_blocking(keeping).await.map_err(|err| err.to_string())??;
        }
        Ok(key)
    }
}
