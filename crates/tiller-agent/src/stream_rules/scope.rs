//! The scope of a rule: text, thinking, calls of some tool, paths of some kind.

use globset::{GlobBuilder, GlobMatcher};

use super::paths::Candidate;

/// The kind of one stream of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stream<'a> {
    Text,
    Thinking,
    /// The arguments of a call, and the paths found in them so far.
    Call {
        tool: &'a str,
        paths: &'a [Candidate],
    },
}

/// The whole scope of a rule.
#[derive(Debug)]
pub(super) struct Scope {
    targets: Vec<Target>,
    /// A path like one of these must be named, too.
    globs: Option<Vec<GlobMatcher>>,
}

#[derive(Debug)]
enum Target {
    Text,
    Thinking,
    Call { tool: Option<String>, glob: Option<GlobMatcher> },
}

impl Scope {
    /// Parses a rule's scope. `Err` if no word of it can be parsed; errors in single words go to
    /// `problems`.
    pub(super) fn read(
        scope: &[String],
        globs: &[String],
        problems: &mut Vec<String>,
    ) -> Result<Scope, String> {
        let mut targets = Vec::new();
        for token in scope.iter().flat_map(|tokens| split(tokens)) {
            match Target::read(&token) {
                Ok(target) => targets.push(target),
                Err(why) => problems.push(format!("the scope `{token}` is ignored: {why}")),
            }
        }
        if scope.is_empty() {
            targets = vec![Target::Text, Target::Call { tool: None, glob: None }];
        }
        if targets.is_empty() {
            return Err("nothing in its scope can be understood".to_owned());
        }
        let mut matchers = Vec::new();
        for pattern in globs {
            match glob(pattern) {
                Ok(matcher) => matchers.push(matcher),
                Err(why) => problems.push(format!("the glob `{pattern}` is ignored: {why}")),
            }
        }
        if matchers.is_empty() && !globs.is_empty() {
            return Err("none of its globs can be understood".to_owned());
        }
        Ok(Scope { targets, globs: (!matchers.is_empty()).then_some(matchers) })
    }

    pub(super) fn covers(&self, stream: Stream<'_>) -> bool {
        let has_path = match (&self.globs, stream) {
            (None, _) => true,
            (Some(globs), Stream::Call { paths, .. }) => globs.iter().any(|glob| fits(glob, paths)),
            (Some(_), Stream::Text | Stream::Thinking) => false,
        };
        has_path && self.targets.iter().any(|target| target.covers(stream))
    }
}

impl Target {
    fn read(token: &str) -> Result<Target, String> {
        let (name, inside) = match token.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some((name, inside)) => (name.trim(), Some(inside.trim())),
            None => (token, None),
        };
        let glob = inside.map(glob).transpose()?;
        let is_name = |name: &str| {
            let is_name_char = |c: char| c.is_alphanumeric() || "_-.".contains(c);
            !name.is_empty() && name.chars().all(is_name_char)
        };
        let of_tool = name.strip_prefix("tool:").or_else(|| name.strip_prefix("toolcall:"));
        match name {
            "text" | "thinking" if glob.is_some() => Err("only calls have paths".to_owned()),
            "text" => Ok(Target::Text),
            "thinking" => Ok(Target::Thinking),
            "tool" | "toolcall" => Ok(Target::Call { tool: None, glob }),
            name => match of_tool.unwrap_or(name).trim() {
                tool if is_name(tool) => Ok(Target::Call { tool: Some(tool.to_owned()), glob }),
                _ => Err("it is neither text, thinking, tool nor the name of a tool".to_owned()),
            },
        }
    }

    fn covers(&self, stream: Stream<'_>) -> bool {
        match (self, stream) {
            (Target::Text, Stream::Text) | (Target::Thinking, Stream::Thinking) => true,
            (Target::Call { tool, glob }, Stream::Call { tool: called, paths }) => {
                tool.as_ref().is_none_or(|tool| tool.eq_ignore_ascii_case(called))
                    && glob.as_ref().is_none_or(|glob| fits(glob, paths))
            }
            _ => false,
        }
    }
}

fn glob(pattern: &str) -> Result<GlobMatcher, String> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    built.map(|glob| glob.compile_matcher()).map_err(|err| err.kind().to_string())
}

fn fits(glob: &GlobMatcher, paths: &[Candidate]) -> bool {
    paths.iter().any(|path| path.spellings().any(|spelling| glob.is_match(spelling)))
}

/// Splits a list at commas outside brackets and quotes. Quotes around a word are removed.
pub fn split(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut depth, mut quote) = (0_usize, None);
    for c in text.chars() {
        match (c, quote) {
            (',', None) if depth == 0 => words.push(std::mem::take(&mut word)),
            (_, Some(open)) => {
                quote = (c != open).then_some(open);
                word.push(c);
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                word.push(c);
            }
            _ => {
                depth = match c {
                    '(' | '[' | '{' => depth + 1,
                    ')' | ']' | '}' => depth.saturating_sub(1),
                    _ => depth,
                };
                word.push(c);
            }
        }
    }
    words.push(word);
    let unquoted = |word: String| {
        let word = word.trim();
        let inside = ['"', '\''].iter().find_map(|&quote| {
            word.strip_prefix(quote)?.strip_suffix(quote).filter(|word| !word.contains(quote))
        });
        inside.unwrap_or(word).to_owned()
    };
    words.into_iter().map(unquoted).filter(|word| !word.is_empty()).collect()
}
