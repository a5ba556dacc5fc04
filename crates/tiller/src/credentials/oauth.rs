//! Sign-ins that somebody else understands: an extension makes a key of what is stored, and renews
//! it when its time is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::auth_file::{AuthEntry, AuthFile};
use super::{hold, json_file};
use crate::models::hints::SIGN_IN_AGAIN;

/// Somebody who knows how to turn a stored sign-in into a key.
pub(crate) trait SignIn: Send + Sync {
    fn key(&self, stored: Value) -> Pin<Box<dyn Future<Output = Result<SignedIn, String>> + Send>>;

    /// Held while one is renewed: of two who come at once, the second finds it renewed.
    fn turn(&self) -> &tokio::sync::Mutex<()>;
}

/// What came of it.
pub(crate) struct SignedIn {
    pub(crate) key: String,
    /// To be stored in the place of what was there.
    pub(crate) renewed: Option<Value>,
}

/// Has no `Debug`, because what it reads are secrets.
#[derive(Clone)]
pub(crate) struct OauthRefresh {
    pub(super) by: Arc<dyn SignIn>,
    pub(super) file: Arc<Mutex<AuthFile>>,
}

impl OauthRefresh {
    pub(super) async fn key(self, provider: &str) -> Result<String, String> {
        let _turn = self.by.turn().lock().await;
        let (stored, path) = {
            let mut file = hold(&self.file);
            file.refresh();
            match file.entry(provider) {
                Some(AuthEntry::Oauth { whole, .. }) => (whole.clone(), file.path().to_owned()),
                _ => return Err("the sign-in is gone from auth.json".to_owned()),
            }
        };
        let renewal = self.by.key(stored).await;
        let SignedIn { key, renewed } = renewal
            .map_err(|why| format!("the sign-in cannot be renewed: {why}. {SIGN_IN_AGAIN}"))?;
        if let Some(Value::Object(mut renewed)) = renewed {
            renewed.insert("type".to_owned(), json!("oauth"));
            let provider = provider.to_owned();
            let keeping = move || json_file::keep(&path, &provider, Value::Object(renewed));
            // Whoever renews a sign-in has often spent the old one: not to keep it is an error.
            tokio::task::spawn_blocking(keeping).await.map_err(|err| err.to_string())??;
        }
        Ok(key)
    }
}
