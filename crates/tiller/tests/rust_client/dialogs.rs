//! Dialogs of extensions.

use std::sync::{Arc, Mutex};

use tiller_client::Builder;
use tiller_client::protocol::{DialogKind, Notice, PromptStatus, Record, UiAnswer, UiRequest};

use crate::support::{Place, bounded, until_in};

const QUESTIONS: &str = r#"
export default function (pi) {
  pi.registerCommand("ask", {
    description: "Ask everything",
    handler: async (args, ctx) => {
      const answers = [
        await ctx.ui.select("Which?", ["red", "green"]),
        await ctx.ui.confirm("Sure?", "Really?"),
        await ctx.ui.input("Name?", "your name"),
        await ctx.ui.editor("Text?", "dear"),
      ];
      ctx.ui.notify(JSON.stringify(answers.map((one) => one ?? null)), "warning");
    },
  });
}
"#;

/// The notice that the extension shows after its questions.
async fn ask(place: &Place, with_handler: impl FnOnce(Builder) -> Builder) -> String {
    let extension = place.write("extension.ts", QUESTIONS);
    let builder = with_handler(place.scripted("say hi\n").arg("-e").arg(extension));
    let client = builder.start().await.unwrap();
    let mut events = client.events().await;
    let result = client.prompt("/ask").await.unwrap().result().await.unwrap();
    assert_eq!((result.status, result.is_ok()), (PromptStatus::Handled, true));
    let is_notice = |record: &Record<'_>| {
        matches!(record, Record::ExtensionUiRequest { request, .. }
            if matches!(request.as_ref(), UiRequest::Notice(_)))
    };
    let event = until_in(&mut events, is_notice).await;
    let Record::ExtensionUiRequest { request, .. } = event.record() else { panic!("{event:?}") };
    let UiRequest::Notice(Notice::Notify { message, .. }) = request.as_ref() else {
        panic!("{request:?}")
    };
    message.clone()
}

#[test]
fn every_kind_of_dialog_is_answered() {
    let place = Place::new();
    let asked: Arc<Mutex<Vec<DialogKind>>> = Arc::default();
    let log = asked.clone();
    let notice = bounded(ask(&place, |builder| {
        builder.on_dialog(move |dialog| {
            log.lock().unwrap().push(dialog.kind.clone());
            async move {
                match dialog.kind {
                    DialogKind::Select { options, .. } => UiAnswer::Value(options[1].clone()),
                    DialogKind::Confirm { .. } => UiAnswer::Confirmed(true),
                    DialogKind::Input { .. } => UiAnswer::Value("Ada".into()),
                    DialogKind::Editor { prefill, .. } => {
                        UiAnswer::Value(format!("{} Ada", prefill.unwrap_or_default()))
                    }
                }
            }
        })
    }));
    assert_eq!(notice, r#"["green",true,"Ada","dear Ada"]"#);
    let expected = DialogKind::Confirm { title: "Sure?".into(), message: "Really?".into() };
    assert_eq!(asked.lock().unwrap()[1], expected);
}

#[test]
fn dialogs_without_a_handler_are_cancelled() {
    let place = Place::new();
    assert_eq!(bounded(ask(&place, |builder| builder)), "[null,false,null,null]");
}

#[test]
fn handler_that_panics_cancels_the_dialog() {
    let place = Place::new();
    let notice = bounded(ask(&place, |builder| {
        builder.on_dialog(|_| async { panic!("a bug of the host") })
    }));
    assert_eq!(notice, "[null,false,null,null]");
}
