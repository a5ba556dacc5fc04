//! Keywords of JavaScript and TypeScript, by how they affect the nesting depth.

/// The class of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A value or the name of one.
    Name,
    /// Precedes an expression.
    Operator,
    /// An operator in some positions and a name in others.
    Contextual,
    /// Begins a statement that may contain another statement.
    Statement,
    /// Like `Statement`, followed by a parenthesis.
    Header,
    /// Continues a statement.
    Continues,
}

pub(super) fn word(text: &str) -> Word {
    match text {
        "if" | "for" | "while" | "with" => Word::Header,
        "do" | "try" | "switch" => Word::Statement,
        "else" | "catch" | "finally" => Word::Continues,
        "new" | "typeof" | "void" | "delete" | "return" | "throw" | "case" | "default"
        | "debugger" | "break" | "continue" => Word::Operator,
        // At the beginning of a line these continue the line before.
        "in" | "instanceof" | "extends" | "of" | "as" | "satisfies" | "implements" | "is"
        | "await" | "yield" | "async" | "keyof" | "unique" | "readonly" | "infer" | "asserts"
        | "abstract" => Word::Contextual,
        _ => Word::Name,
    }
}
