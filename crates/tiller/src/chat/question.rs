//! Questions to the user, and what the next input line means as their answer. Pure.

use tiller_protocol::{DialogKind, UiAnswer};

/// What an input line means for a dialog.
#[derive(Debug, PartialEq)]
pub(super) enum DialogReply {
    Answer(UiAnswer),
    /// The line is no answer. The text says what is expected.
    Unclear(String),
}

/// The lines that show a dialog. The first one is its title.
pub(super) fn dialog_lines(kind: &DialogKind) -> Vec<String> {
    match kind {
        DialogKind::Select { title, options } => {
            let mut lines = numbered(title, options);
            lines.push(expected(kind));
            lines
        }
        DialogKind::Confirm { title, message } => {
            let message = Some(message.trim()).filter(|message| !message.is_empty());
            let message = message.map(|message| format!("  {}", message.replace('\n', "\n  ")));
            [Some(title.clone()), message, Some(expected(kind))].into_iter().flatten().collect()
        }
        DialogKind::Input { title, placeholder } => {
            let example = placeholder.as_ref().map(|text| format!("  for example: {text}"));
            [Some(title.clone()), example, Some(expected(kind))].into_iter().flatten().collect()
        }
        DialogKind::Editor { title, prefill } => {
            let text = prefill.as_ref().filter(|text| !text.trim().is_empty());
            let text = text.map(|text| format!("  {}", text.trim_end().replace('\n', "\n  ")));
            [Some(title.clone()), text, Some(expected(kind))].into_iter().flatten().collect()
        }
    }
}

/// A title and a numbered list.
pub(super) fn numbered(title: &str, options: &[String]) -> Vec<String> {
    let width = options.len().to_string().len();
    let options = options.iter().enumerate();
    let options = options.map(|(at, option)| format!("  {:>width$}  {option}", at + 1));
    std::iter::once(title.to_owned()).chain(options).collect()
}

/// The number of a list that a line names, counted from 0.
pub(super) fn numbered_choice(line: &str, count: usize) -> Option<usize> {
    let number: usize = line.trim().parse().ok()?;
    number.checked_sub(1).filter(|at| *at < count)
}

/// What a line means as the answer to a dialog.
pub(super) fn dialog_reply(kind: &DialogKind, line: &str) -> DialogReply {
    let text = line.trim();
    let answer = match kind {
        DialogKind::Select { options, .. } => {
            let by_text = || options.iter().position(|option| option.trim() == text);
            match numbered_choice(text, options.len()).or_else(by_text) {
                Some(at) => UiAnswer::Value(options[at].clone()),
                None if text.is_empty() => UiAnswer::Cancelled,
                None => return DialogReply::Unclear(expected(kind)),
            }
        }
        DialogKind::Confirm { .. } => match text.to_lowercase().as_str() {
            "y" | "yes" => UiAnswer::Confirmed(true),
            "" | "n" | "no" => UiAnswer::Confirmed(false),
            _ => return DialogReply::Unclear(expected(kind)),
        },
        DialogKind::Editor { prefill: Some(prefill), .. } if text.is_empty() => {
            UiAnswer::Value(prefill.clone())
        }
        DialogKind::Input { .. } | DialogKind::Editor { .. } if text.is_empty() => {
            UiAnswer::Cancelled
        }
        DialogKind::Input { .. } => UiAnswer::Value(text.to_owned()),
        DialogKind::Editor { .. } => UiAnswer::Value(line.replace("\\\n", "\n")),
    };
    DialogReply::Answer(answer)
}

fn expected(kind: &DialogKind) -> String {
    match kind {
        DialogKind::Select { options, .. } => {
            format!("Type a number from 1 to {}, or nothing to cancel.", options.len())
        }
        DialogKind::Confirm { .. } => "Type y for yes or n for no [n].".to_owned(),
        DialogKind::Input { .. } => "Type a line, or nothing to cancel.".to_owned(),
        DialogKind::Editor { prefill: Some(_), .. } => {
            "Type a new text, or nothing to keep this one.".to_owned()
        }
        DialogKind::Editor { prefill: None, .. } => "Type a text, or nothing to cancel.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn select() -> DialogKind {
        let options = vec!["main".to_owned(), "next".to_owned(), "3".to_owned()];
        DialogKind::Select { title: "Which branch?".to_owned(), options }
    }

    fn confirm() -> DialogKind {
        DialogKind::Confirm { title: "Run this?".to_owned(), message: "rm -rf build\nls".into() }
    }

    fn input() -> DialogKind {
        DialogKind::Input { title: "Name?".to_owned(), placeholder: Some("Ada".to_owned()) }
    }

    fn editor(prefill: Option<&str>) -> DialogKind {
        DialogKind::Editor { title: "Text?".to_owned(), prefill: prefill.map(str::to_owned) }
    }

    #[test]
    fn dialogs_are_shown_with_what_is_expected() {
        let dialogs = [select(), confirm(), input(), editor(Some("a\nb\n")), editor(None)];
        let shown = dialogs.iter().flat_map(dialog_lines).collect::<Vec<_>>().join("\n");
        expect![[r#"
            Which branch?
              1  main
              2  next
              3  3
            Type a number from 1 to 3, or nothing to cancel.
            Run this?
              rm -rf build
              ls
            Type y for yes or n for no [n].
            Name?
              for example: Ada
            Type a line, or nothing to cancel.
            Text?
              a
              b
            Type a new text, or nothing to keep this one.
            Text?
            Type a text, or nothing to cancel."#]]
        .assert_eq(&shown);
    }

    #[test]
    fn lines_are_answers() {
        let value = |text: &str| Some(UiAnswer::Value(text.to_owned()));
        for (kind, line, expected) in [
            (select(), "2", value("next")),
            (select(), " main ", value("main")),
            (select(), "", Some(UiAnswer::Cancelled)),
            (select(), "4", None),
            (select(), "0", None),
            (confirm(), "Y", Some(UiAnswer::Confirmed(true))),
            (confirm(), "", Some(UiAnswer::Confirmed(false))),
            (confirm(), "no", Some(UiAnswer::Confirmed(false))),
            (confirm(), "1", None),
            (input(), "Grace ", value("Grace")),
            (input(), "", Some(UiAnswer::Cancelled)),
            (editor(Some("old")), "", value("old")),
            (editor(Some("old")), "new\\\nline", value("new\nline")),
            (editor(None), "", Some(UiAnswer::Cancelled)),
        ] {
            let reply = dialog_reply(&kind, line);
            match expected {
                Some(answer) => assert_eq!(reply, DialogReply::Answer(answer), "{line:?}"),
                None => assert!(matches!(reply, DialogReply::Unclear(_)), "{line:?}: {reply:?}"),
            }
        }
    }
}
