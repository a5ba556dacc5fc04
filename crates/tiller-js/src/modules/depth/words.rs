//! Words of the language, by what they do to the depth of a source.

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Anything that is a value or names one.
    Name,
    /// Stands before an expression.
    Operator,
    /// The same in some places, and a name in others.
    Contextual,
    /// Begins a statement that may have another one in it.
    Statement,
    /// The same with a parenthesis behind it.
    Header,
    /// Goes on with a statement.
    Continues,
}

pub(super) fn word(text: &str) -> Word {
    match text {
        "if" | "for" | "while" | "with" => Word::Header,
        "do" | "try" | "switch" => Word::Statement,
        "else" | "catch" | "finally" => Word::Continues,
        "new" | "typeof" | "void" | "delete" | "return" | "throw" | "case" | "default"
        | "debugger" | "break" | "continue" => Word::Operator,
        // Behind the end of a line these go on with what was before it.
        "in" | "instanceof" | "extends" | "of" | "as" | "satisfies" | "implements" | "is"
        | "await" | "yield" | "async" | "keyof" | "unique" | "readonly" | "infer" | "asserts"
        | "abstract" => Word::Contextual,
        _ => Word::Name,
    }
}
