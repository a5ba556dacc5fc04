//! Dialogs of extensions, as questions to the user of the client: `session/request_permission`, or a
//! form where the client shows forms.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_client_protocol_schema::v1::BooleanPropertySchema;
use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationPropertySchema, ElicitationSchema,
    ElicitationSessionScope, EnumOption, Error, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SessionId,
    StringPropertySchema, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;
use tiller_protocol::{Command, DialogKind, ExtensionUiResponse, UiAnswer};

use crate::initialize::ClientOffer;
use crate::link::Link;

/// The questions of a session that the client has not answered.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// By the id of the request.
    open: BTreeMap<i64, Question>,
}

#[derive(Debug)]
struct Question {
    /// The dialog that waits.
    dialog: String,
    form: Form,
}

/// How the user is asked.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// A choice between buttons: the answer that each stands for.
    Permission(Vec<UiAnswer>),
    /// A form with one field.
    Elicitation,
}

/// A dialog of an extension.
pub(crate) struct Asked<'a> {
    /// The id of the dialog.
    pub(crate) dialog: &'a str,
    pub(crate) kind: &'a DialogKind,
    /// The tool call that it is about.
    pub(crate) call: Option<&'a str>,
}

/// The only field of a form.
const FIELD: &str = "answer";

impl Questions {
    /// Asks the user. A dialog that the client cannot show is answered as if the user had closed it.
    pub(crate) fn ask(
        &mut self,
        asked: &Asked<'_>,
        session: &SessionId,
        handle: &Arc<str>,
        offer: ClientOffer,
        link: &mut Link,
    ) {
        let form = match way(asked, offer) {
            Way::Permission => {
                let (request, answers) = permission(asked, session);
                let method = CLIENT_METHOD_NAMES.session_request_permission;
                (link.ask(handle, method, &request), Form::Permission(answers))
            }
            Way::Form => {
                let request = elicitation(asked, session);
                let method = CLIENT_METHOD_NAMES.elicitation_create;
                (link.ask(handle, method, &request), Form::Elicitation)
            }
            Way::None => return reply(asked.dialog, UiAnswer::Cancelled, handle, link),
        };
        let (id, form) = form;
        self.open.insert(id, Question { dialog: asked.dialog.to_owned(), form });
    }

    /// Answers a dialog as if the user had closed it.
    pub(crate) fn refuse(&self, asked: &Asked<'_>, handle: &str, link: &mut Link) {
        reply(asked.dialog, UiAnswer::Cancelled, handle, link);
    }

    /// The client has answered. An answer that cannot be read counts as a closed dialog.
    pub(crate) fn answered(
        &mut self,
        id: i64,
        result: Result<Value, Error>,
        handle: &str,
        link: &mut Link,
    ) {
        let Some(Question { dialog, form }) = self.open.remove(&id) else { return };
        let answer = result.ok().and_then(|result| match form {
            Form::Permission(answers) => chosen(answers, result),
            Form::Elicitation => filled_in(result),
        });
        reply(&dialog, answer.unwrap_or(UiAnswer::Cancelled), handle, link);
    }

    /// The prompt was cancelled: every dialog is closed. The client knows that it need not answer.
    pub(crate) fn cancel(&mut self, handle: &str, link: &mut Link) {
        for (id, question) in std::mem::take(&mut self.open) {
            link.take_question(id);
            reply(&question.dialog, UiAnswer::Cancelled, handle, link);
        }
    }

    /// The dialog is no longer open, so its question is withdrawn.
    pub(crate) fn closed(&mut self, dialog: &str, link: &mut Link) {
        let id =
            self.open.iter().find(|(_, question)| question.dialog == dialog).map(|(id, _)| *id);
        if let Some(id) = id {
            self.open.remove(&id);
            link.withdraw(id);
        }
    }

    /// The session has ended, and with it all dialogs.
    pub(crate) fn drop_all(&mut self, link: &mut Link) {
        for (id, _) in std::mem::take(&mut self.open) {
            link.withdraw(id);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Permission,
    Form,
    None,
}

/// A question about a tool call is a permission. Others are forms where the client shows forms; if
/// it does not, a choice can still be asked like a permission.
fn way(asked: &Asked<'_>, offer: ClientOffer) -> Way {
    let is_choice = matches!(asked.kind, DialogKind::Select { .. } | DialogKind::Confirm { .. });
    if is_choice && asked.call.is_some() {
        Way::Permission
    } else if offer.forms {
        Way::Form
    } else if is_choice {
        Way::Permission
    } else {
        Way::None
    }
}

/// Answers a dialog.
fn reply(dialog: &str, answer: UiAnswer, handle: &str, link: &mut Link) {
    // The command's own `id` is the dialog's.
    let answer = ExtensionUiResponse { id: dialog.to_owned(), answer };
    link.send_unlabelled(handle, &Command::ExtensionUiResponse(answer));
}

fn permission(asked: &Asked<'_>, session: &SessionId) -> (RequestPermissionRequest, Vec<UiAnswer>) {
    let (title, text, choices) = match asked.kind {
        DialogKind::Select { title, options } => {
            let choice =
                |name: &String| (name.clone(), kind_of(name), UiAnswer::Value(name.clone()));
            (title, None, options.iter().map(choice).collect())
        }
        DialogKind::Confirm { title, message } => {
            let yes =
                ("Yes".to_owned(), PermissionOptionKind::AllowOnce, UiAnswer::Confirmed(true));
            let no =
                ("No".to_owned(), PermissionOptionKind::RejectOnce, UiAnswer::Confirmed(false));
            (title, Some(message), vec![yes, no])
        }
        DialogKind::Input { title, .. } | DialogKind::Editor { title, .. } => {
            (title, None, Vec::new())
        }
    };
    let text = text.filter(|text| !text.is_empty());
    let fields = ToolCallUpdateFields::new().title(title.clone());
    let content = text.map(|text| vec![text.as_str().into()]);
    let call = match asked.call {
        Some(call) => {
            // The call keeps what it shows already.
            let title = match text {
                Some(text) => format!("{title} {text}"),
                None => title.clone(),
            };
            ToolCallUpdate::new(call.to_owned(), ToolCallUpdateFields::new().title(title))
        }
        None => ToolCallUpdate::new(
            format!("dialog-{}", asked.dialog),
            fields.kind(ToolKind::Other).status(ToolCallStatus::Pending).content(content),
        ),
    };
    let mut options = Vec::new();
    let mut answers = Vec::new();
    for (index, (name, kind, answer)) in choices.into_iter().enumerate() {
        options.push(PermissionOption::new(format!("option-{index}"), name, kind));
        answers.push(answer);
    }
    (RequestPermissionRequest::new(session.clone(), call, options), answers)
}

/// What an option probably means; editors give it an icon and a key.
fn kind_of(name: &str) -> PermissionOptionKind {
    let name = name.to_lowercase();
    let first = name.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    let rejects = ["no", "deny", "reject", "block", "cancel", "never", "refuse", "abort", "stop"];
    let is_lasting = ["always", "never", "for this session"].iter().any(|word| name.contains(word));
    match (first.is_some_and(|first| rejects.contains(&first)), is_lasting) {
        (true, true) => PermissionOptionKind::RejectAlways,
        (true, false) => PermissionOptionKind::RejectOnce,
        (false, true) => PermissionOptionKind::AllowAlways,
        (false, false) => PermissionOptionKind::AllowOnce,
    }
}

fn chosen(answers: Vec<UiAnswer>, result: Value) -> Option<UiAnswer> {
    let response: RequestPermissionResponse = serde_json::from_value(result).ok()?;
    let RequestPermissionOutcome::Selected(selected) = response.outcome else { return None };
    let index: usize = selected.option_id.0.strip_prefix("option-")?.parse().ok()?;
    answers.into_iter().nth(index)
}

fn elicitation(asked: &Asked<'_>, session: &SessionId) -> CreateElicitationRequest {
    let (message, property): (&str, ElicitationPropertySchema) = match asked.kind {
        DialogKind::Select { title, options } => {
            let options = options.iter().map(|name| EnumOption::new(name.clone(), name.clone()));
            let options: Vec<_> = options.collect();
            (title, StringPropertySchema::new().one_of(options).into())
        }
        DialogKind::Confirm { title, message } => {
            let question = BooleanPropertySchema::new().title(message.clone()).default_value(true);
            (title, question.into())
        }
        DialogKind::Input { title, placeholder } => {
            (title, StringPropertySchema::new().description(placeholder.clone()).into())
        }
        DialogKind::Editor { title, prefill } => {
            (title, StringPropertySchema::new().default_value(prefill.clone()).into())
        }
    };
    let schema = ElicitationSchema::new().property(FIELD, property, true);
    let call = asked.call.map(|call| call.to_owned().into());
    let scope = ElicitationSessionScope::new(session.clone()).tool_call_id(call);
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), message)
}

fn filled_in(result: Value) -> Option<UiAnswer> {
    let response: CreateElicitationResponse = serde_json::from_value(result).ok()?;
    let ElicitationAction::Accept(accepted) = response.action else { return None };
    match accepted.content?.remove(FIELD)? {
        ElicitationContentValue::Boolean(yes) => Some(UiAnswer::Confirmed(yes)),
        ElicitationContentValue::String(text) => Some(UiAnswer::Value(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn way_of_a_question_depends_on_its_kind_and_the_client() {
        let select = DialogKind::Select { title: String::new(), options: Vec::new() };
        let input = DialogKind::Input { title: String::new(), placeholder: None };
        for (kind, call, forms, expected) in [
            (&select, Some("c"), true, Way::Permission),
            (&select, Some("c"), false, Way::Permission),
            (&select, None, true, Way::Form),
            (&select, None, false, Way::Permission),
            (&input, Some("c"), true, Way::Form),
            (&input, Some("c"), false, Way::None),
            (&input, None, false, Way::None),
        ] {
            let asked = Asked { dialog: "d", kind, call };
            let offer = ClientOffer { forms, ..ClientOffer::default() };
            assert_eq!(way(&asked, offer), expected, "{kind:?} {call:?} {forms}");
        }
    }

    #[test]
    fn meaning_of_an_option_is_read_from_its_name() {
        use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
        for (name, expected) in [
            ("Yes", AllowOnce),
            ("Allow for this session", AllowAlways),
            ("Allow for this session: npm test *", AllowAlways),
            ("Yes, always", AllowAlways),
            ("No", RejectOnce),
            ("Deny (d)", RejectOnce),
            ("Never", RejectAlways),
            ("Northern", AllowOnce),
            ("", AllowOnce),
        ] {
            assert_eq!(kind_of(name), expected, "{name}");
        }
    }

    #[test]
    fn answers_that_do_not_fit_count_as_closed() {
        let answers = || vec![UiAnswer::Confirmed(true)];
        for result in [
            json!({"outcome": {"outcome": "cancelled"}}),
            json!({"outcome": {"outcome": "selected", "optionId": "option-1"}}),
            json!({"outcome": {"outcome": "selected", "optionId": "yes"}}),
            json!({}),
            json!(null),
        ] {
            assert_eq!(chosen(answers(), result), None);
        }
        for result in [
            json!({"action": "decline"}),
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {"other": "x"}}),
            json!({"action": "accept", "content": {"answer": 3}}),
            json!("accept"),
        ] {
            assert_eq!(filled_in(result), None);
        }
        let yes = json!({"action": "accept", "content": {"answer": false}});
        assert_eq!(filled_in(yes), Some(UiAnswer::Confirmed(false)));
    }
}
