//! `initialize`: what tiller offers, and what of the client's offer tiller uses.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal, ClientCapabilities,
    Implementation, InitializeRequest, InitializeResponse, McpCapabilities, PromptCapabilities,
    SessionCapabilities, SessionCloseCapabilities, SessionListCapabilities,
    SessionResumeCapabilities,
};

/// The method whose key comes from the environment or was stored with `tiller auth`.
pub(crate) const KEY_METHOD: &str = "api-key";
/// The method that runs tiller in a terminal.
pub(crate) const TERMINAL_METHOD: &str = "tiller-auth";
/// The flag that this method adds to the command line of the agent.
const LOGIN_FLAG: &str = "--login";

/// What the client can do beyond the basics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ClientOffer {
    /// It shows forms.
    pub(crate) forms: bool,
    /// It shows compactions.
    pub(crate) compactions: bool,
    /// It shows notices.
    pub(crate) notices: bool,
    /// It can run tiller in a terminal.
    pub(crate) terminal_auth: bool,
}

impl ClientOffer {
    pub(crate) fn new(capabilities: &ClientCapabilities) -> ClientOffer {
        let session = capabilities.session.as_ref();
        let elicitation = capabilities.elicitation.as_ref();
        ClientOffer {
            forms: elicitation.is_some_and(|elicitation| elicitation.form.is_some()),
            compactions: session.is_some_and(|session| session.compaction.is_some()),
            notices: session.is_some_and(|session| session.notices.is_some()),
            terminal_auth: capabilities.auth.terminal,
        }
    }
}

/// The answer to `initialize`. tiller speaks version 1 only: a client of another version decides
/// whether it goes on.
pub(crate) fn answer(request: &InitializeRequest, version: &str) -> InitializeResponse {
    let offer = ClientOffer::new(&request.client_capabilities);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities())
        .auth_methods(auth_methods(offer))
        .agent_info(Implementation::new("tiller", version).title("tiller".to_owned()))
}

fn capabilities() -> AgentCapabilities {
    AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(
            SessionCapabilities::new()
                .list(SessionListCapabilities::new())
                .resume(SessionResumeCapabilities::new())
                .close(SessionCloseCapabilities::new()),
        )
}

fn auth_methods(offer: ClientOffer) -> Vec<AuthMethod> {
    let key = AuthMethodAgent::new(KEY_METHOD, "API key").description(
        "Set the provider's variable, such as ANTHROPIC_API_KEY, in the environment of tiller, or \
         store a key with `tiller auth set PROVIDER`"
            .to_owned(),
    );
    let mut methods = vec![AuthMethod::Agent(key)];
    if offer.terminal_auth {
        let terminal = AuthMethodTerminal::new(TERMINAL_METHOD, "tiller auth")
            .description("Store an API key in a terminal".to_owned())
            .args(vec![LOGIN_FLAG.to_owned()]);
        methods.push(AuthMethod::Terminal(terminal));
    }
    methods
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(capabilities: serde_json::Value) -> InitializeRequest {
        let request = json!({ "protocolVersion": 9, "clientCapabilities": capabilities });
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn client_of_a_newer_version_is_offered_version_1() {
        assert_eq!(answer(&request(json!({})), "1").protocol_version, ProtocolVersion::V1);
    }

    #[test]
    fn terminal_method_is_offered_only_to_a_client_with_terminals() {
        let ids = |capabilities| {
            let methods = answer(&request(capabilities), "1").auth_methods;
            methods.iter().map(|method| method.id().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(json!({})), [KEY_METHOD]);
        assert_eq!(ids(json!({"auth": {"terminal": true}})), [KEY_METHOD, TERMINAL_METHOD]);
    }

    #[test]
    fn offer_of_the_client_is_read() {
        let offer = |capabilities| ClientOffer::new(&request(capabilities).client_capabilities);
        assert_eq!(offer(json!({})), ClientOffer::default());
        let all = json!({
            "session": { "compaction": {}, "notices": {} },
            "elicitation": { "form": {} },
            "auth": { "terminal": true },
        });
        let expected =
            ClientOffer { forms: true, compactions: true, notices: true, terminal_auth: true };
        assert_eq!(offer(all), expected);
        assert!(!offer(json!({"elicitation": {"url": {}}})).forms);
    }
}
