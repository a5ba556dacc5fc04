//! Text that grows at the end of the last line above the prompt. Pure.
//!
//! The line editor prints whole lines above the prompt. To continue a line that is already there,
//! the text begins with a movement of the cursor to its end. So this file counts columns as the
//! terminal does. Without a line editor (a pipe), text is written as it comes.

use unicode_width::UnicodeWidthChar;

use super::paint::{Paint, Tone};

/// What the chat prints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Output {
    /// A part of a text that grows.
    Text { stream: TextStream, text: String },
    /// The growing text is complete.
    EndOfText,
    /// Whole lines, without the last line break.
    Lines(String),
    /// The same, for stderr if there is no line editor.
    Error(String),
    /// The line of a tool call that has started.
    CallStart { id: String, line: String },
    /// The end of that line. If it is no longer the last one, the whole line is printed again.
    CallEnd { id: String, tail: String, line: String },
}

/// Where a growing text comes from. Two of them never share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextStream {
    Answer,
    Thinking,
    Shell,
}

/// Where the lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Above the prompt of the line editor, which moves down to a new line after each print.
    AbovePrompt,
    /// To a pipe, or a terminal without a prompt.
    Stream,
}

/// The last line, while it can be continued.
#[derive(Debug, PartialEq)]
struct OpenLine {
    owner: LineOwner,
    /// The column behind its last character.
    column: usize,
}

#[derive(Debug, PartialEq)]
enum LineOwner {
    Stream(TextStream),
    Call(String),
}

pub(super) struct LineFlow {
    target: Target,
    paint: Paint,
    open: Option<OpenLine>,
    /// A line was interrupted, so its text goes on at the beginning of another one.
    was_interrupted: bool,
}

impl LineFlow {
    pub(super) fn new(target: Target, paint: Paint) -> LineFlow {
        LineFlow { target, paint, open: None, was_interrupted: false }
    }

    /// Something else was printed below the last line, such as the user's input.
    pub(super) fn forget_line(&mut self) {
        self.was_interrupted |= self.open.take().is_some_and(|open| open.column > 0);
    }

    /// The text that prints this on a terminal with so many columns.
    pub(super) fn write(&mut self, output: &Output, columns: usize) -> String {
        match output {
            Output::Text { stream, text } => {
                let owner = LineOwner::Stream(*stream);
                let tone = match stream {
                    TextStream::Thinking => Tone::Dim,
                    TextStream::Answer | TextStream::Shell => Tone::Plain,
                };
                self.append(owner, text, tone, columns)
            }
            Output::EndOfText => self.close(),
            Output::Lines(lines) | Output::Error(lines) => format!("{}{lines}\n", self.close()),
            Output::CallStart { id, line } => {
                let closed = self.close();
                let owner = LineOwner::Call(id.clone());
                closed + &self.append(owner, line, Tone::Plain, columns)
            }
            Output::CallEnd { id, tail, line } => {
                let owner = LineOwner::Call(id.clone());
                if self.open.as_ref().is_some_and(|open| open.owner == owner) {
                    self.append(owner, tail, Tone::Plain, columns) + &self.close()
                } else {
                    format!("{}{line}\n", self.close())
                }
            }
        }
    }

    /// Appends a text to the line of its owner, or begins a line.
    fn append(&mut self, owner: LineOwner, text: &str, tone: Tone, columns: usize) -> String {
        if text.is_empty() {
            return String::new();
        }
        let open = self.open.take();
        let (begin, column) = match open {
            Some(open) if open.owner == owner => (self.continuation(open.column), open.column),
            other => {
                self.open = other;
                (self.close(), 0)
            }
        };
        // The space between two words needs no place at the beginning of a line.
        let is_continued = std::mem::take(&mut self.was_interrupted) && column == 0;
        let text = text.strip_prefix(' ').filter(|_| is_continued).unwrap_or(text);
        let column = column_after(text, column, columns);
        let painted = self.paint.apply(tone, text);
        let end = match self.target {
            // The prompt needs a line of its own.
            Target::AbovePrompt if !text.ends_with('\n') => "\n",
            _ => "",
        };
        self.open = Some(OpenLine { owner, column });
        format!("{begin}{painted}{end}")
    }

    /// Moves the cursor to the end of the last line.
    fn continuation(&self, column: usize) -> String {
        match (self.target, column) {
            (Target::Stream, _) | (Target::AbovePrompt, 0) => String::new(),
            (Target::AbovePrompt, column) => format!("\r\x1b[A\x1b[{column}C"),
        }
    }

    /// Ends the last line.
    fn close(&mut self) -> String {
        let column = self.open.take().map_or(0, |open| open.column);
        let is_inside = self.target == Target::Stream && column > 0;
        if is_inside { "\n".to_owned() } else { String::new() }
    }
}

/// The column behind a text that begins at this one, on a terminal with so many columns. Behind a
/// full line it is 0: the next character comes on the next line.
fn column_after(text: &str, mut column: usize, columns: usize) -> usize {
    const TAB: usize = 8;
    for c in strip_paint(text) {
        match c {
            '\n' => column = 0,
            // A tab never leaves its line.
            '\t' => column = ((column / TAB + 1) * TAB).min(columns.saturating_sub(1)),
            c => {
                let width = c.width().unwrap_or_default();
                if column + width > columns {
                    column = 0;
                }
                column += width;
                if column == columns {
                    column = 0;
                }
            }
        }
    }
    column
}

/// The characters of a text without the codes of [`Paint`].
fn strip_paint(text: &str) -> impl Iterator<Item = char> {
    let mut is_code = false;
    text.chars().filter(move |c| {
        let was_code = is_code;
        is_code = if is_code { *c != 'm' } else { *c == '\x1b' };
        !was_code && !is_code
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn text(text: &str) -> Output {
        Output::Text { stream: TextStream::Answer, text: text.to_owned() }
    }

    fn thinking(text: &str) -> Output {
        Output::Text { stream: TextStream::Thinking, text: text.to_owned() }
    }

    fn start(id: &str) -> Output {
        Output::CallStart { id: id.to_owned(), line: format!("[{id}] x") }
    }

    fn end(id: &str) -> Output {
        Output::CallEnd { id: id.to_owned(), tail: " ok".to_owned(), line: format!("[{id}] x ok") }
    }

    fn lines(text: &str) -> Output {
        Output::Lines(text.to_owned())
    }

    fn check(target: Target, outputs: &[Output], expect: Expect) {
        let mut flow = LineFlow::new(target, Paint { has_color: false });
        let written: Vec<String> =
            outputs.iter().map(|output| format!("{:?}", flow.write(output, 10))).collect();
        expect.assert_eq(&written.join("\n"));
    }

    #[test]
    fn text_above_the_prompt_continues_its_line() {
        check(
            Target::AbovePrompt,
            &[
                text("Once"),
                text(" upon"),
                text("x"),
                text("a\nb"),
                text(""),
                Output::EndOfText,
                text("c"),
            ],
            expect![[r#"
                "Once\n"
                "\r\u{1b}[A\u{1b}[4C upon\n"
                "\r\u{1b}[A\u{1b}[9Cx\n"
                "a\nb\n"
                ""
                ""
                "c\n""#]],
        );
    }

    #[test]
    fn text_in_a_pipe_is_written_as_it_comes() {
        check(
            Target::Stream,
            &[
                thinking("Hm"),
                text("Once"),
                text(" upon a time"),
                start("1"),
                end("1"),
                lines("note"),
                start("1"),
                start("2"),
                end("1"),
                end("2"),
                text("done\n"),
                Output::EndOfText,
            ],
            expect![[r#"
                "Hm"
                "\nOnce"
                " upon a time"
                "\n[1] x"
                " ok\n"
                "note\n"
                "[1] x"
                "\n[2] x"
                "\n[1] x ok\n"
                "[2] x ok\n"
                "done\n"
                """#]],
        );
    }

    #[test]
    fn line_that_is_no_longer_the_last_is_not_continued() {
        let mut flow = LineFlow::new(Target::AbovePrompt, Paint { has_color: false });
        assert_eq!(flow.write(&text("Once"), 10), "Once\n");
        flow.forget_line();
        assert_eq!(flow.write(&text(" upon"), 10), "upon\n");
        assert_eq!(flow.write(&text(" a"), 10), "\r\u{1b}[A\u{1b}[4C a\n");
    }

    #[test]
    fn columns_are_counted_as_a_terminal_does() {
        for (text, column, expected) in [
            ("abc", 0, 3),
            ("abc", 8, 1),
            ("ab", 8, 0),
            ("a\nbc", 5, 2),
            ("\t", 1, 8),
            ("\t", 8, 9),
            ("日本", 0, 4),
            ("日", 9, 2),
            ("e\u{301}", 0, 1),
            ("\u{1b}[31mred\u{1b}[0m", 0, 3),
        ] {
            assert_eq!(column_after(text, column, 10), expected, "{text:?} at {column}");
        }
    }
}
