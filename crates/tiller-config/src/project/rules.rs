//! Rule files: what a model must not do.
//!
//! A rule with a condition is matched against the model's output. A rule without one is part of the
//! system prompt: as a whole, or by its description and path.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use tiller_agent::front_matter::Document;
use tiller_agent::stream_rules::{
    Rule, RuleInterruptMode, RuleLevel, RuleSet, RuleSource, split_list,
};

use super::source::ResourceOrigin;
use super::text_file;
use crate::settings::Scope;

/// All rules.
#[derive(Debug, Default)]
pub struct RuleFiles {
    /// Rules with a condition, matched against the output.
    pub watching: Option<Arc<RuleSet>>,
    /// Rules that are always part of the system prompt.
    pub(crate) standing: Vec<Rule>,
    /// Rules listed in the system prompt by description and path.
    pub(crate) listed: Vec<Rule>,
}

impl RuleFiles {
    pub fn count(&self) -> usize {
        let watching = self.watching.as_ref().map_or(0, |set| set.len());
        watching + self.standing.len() + self.listed.len()
    }
}

/// Reads all rules below these roots. The first of two with the same name counts.
pub(super) fn read(roots: Vec<ResourceOrigin>, diagnostics: &mut Vec<String>) -> RuleFiles {
    let mut found: Vec<Rule> = Vec::new();
    let mut indexes: HashMap<String, usize> = HashMap::new();
    let mut visited = HashSet::new();
    for root in roots {
        for path in files(&root.path, diagnostics) {
            if !visited.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                continue;
            }
            let Some(rule) = read_rule(path, root.scope, diagnostics) else { continue };
            match indexes.get(&rule.name) {
                Some(&first) => diagnostics.push(format!(
                    "rule {} is overridden by {}",
                    rule.path.display(),
                    found[first].path.display()
                )),
                None => {
                    indexes.insert(rule.name.clone(), found.len());
                    found.push(rule);
                }
            }
        }
    }
    let compiled = RuleSet::compile(found);
    diagnostics.extend(compiled.problems);
    let mut rules = RuleFiles { watching: compiled.set, ..RuleFiles::default() };
    for rule in compiled.rest {
        match (rule.always_apply, &rule.description) {
            (true, _) => rules.standing.push(rule),
            (false, Some(_)) => rules.listed.push(rule),
            (false, None) => diagnostics.push(format!(
                "rule {} is ignored: it has no condition, no description and no alwaysApply",
                rule.path.display()
            )),
        }
    }
    rules
}

/// The Markdown files directly inside the folder, by name.
fn files(folder: &Path, diagnostics: &mut Vec<String>) -> Vec<PathBuf> {
    if !folder.is_dir() {
        return Vec::new();
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(err) => {
            diagnostics.push(format!("cannot read the folder {}: {err}", folder.display()));
            return Vec::new();
        }
    };
    let is_rule = |path: &PathBuf| path.extension().is_some_and(|end| end == "md" || end == "mdc");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_rule);
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths
}

fn read_rule(path: PathBuf, scope: Scope, diagnostics: &mut Vec<String>) -> Option<Rule> {
    let text = text_file::read(&path, diagnostics)?;
    let document = Document::split(&text);
    let fields = match document.fields() {
        Ok(fields) => fields,
        Err(why) => {
            diagnostics.push(format!("rule {} is ignored: {why}", path.display()));
            return None;
        }
    };
    let description = fields.get("description").and_then(Value::as_str).map(str::trim);
    let mode = fields.get("interruptMode").filter(|mode| !mode.is_null());
    let interrupt_mode = mode.and_then(|mode| {
        let read: Option<RuleInterruptMode> = serde_json::from_value(mode.clone()).ok();
        if read.is_none() {
            let why = "must be one of never, prose-only, tool-only, always";
            diagnostics.push(format!("rule {}: interruptMode {mode} {why}", path.display()));
        }
        read
    });
    let (condition, scope_words) = conditions(&fields);
    let level = match scope {
        Scope::Project => RuleLevel::Project,
        Scope::User | Scope::Process => RuleLevel::User,
    };
    Some(Rule {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        content: document.body.trim().replace("\r\n", "\n"),
        globs: text_list(fields.get("globs")),
        always_apply: fields.get("alwaysApply").is_some_and(|value| *value == true),
        description: description.filter(|text| !text.is_empty()).map(str::to_owned),
        condition,
        scope: scope_words,
        interrupt_mode,
        source: RuleSource::new(path.clone(), level),
        path,
    })
}

/// The fields that may hold the condition; the later ones are from older files.
const CONDITION: [&str; 3] = ["condition", "ttsr_trigger", "ttsrTrigger"];

/// The conditions and their scope. A file glob as a condition matches any change to such a file;
/// beside other conditions it limits them to changes of such files.
fn conditions(fields: &Map<String, Value>) -> (Vec<String>, Vec<String>) {
    let mut conditions = CONDITION.iter().map(|name| texts(fields.get(*name)));
    let conditions = conditions.find(|texts| !texts.is_empty()).unwrap_or_default();
    let (globs, mut conditions): (Vec<_>, Vec<_>) =
        conditions.into_iter().partition(|condition| is_file_glob(condition));
    let mut scope = text_list(fields.get("scope"));
    for glob in &globs {
        scope.extend(["edit", "write"].map(|tool| format!("tool:{tool}({glob})")));
    }
    if conditions.is_empty() && !globs.is_empty() {
        conditions.push(".*".to_owned());
    }
    (conditions, scope)
}

/// Whether a condition is a file glob. No regular expression begins with a star.
fn is_file_glob(condition: &str) -> bool {
    !condition.contains(['\\', '^', '$', '+', '|', '(', ')'])
        && condition.contains(['?', '*', '[', ']', '{', '}'])
        && (condition.contains('/') || condition.starts_with("*."))
}

/// A string, or a list of strings.
fn texts(value: Option<&Value>) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(bool) => Some(bool.to_string()),
        _ => None,
    };
    let texts: Vec<String> = match value {
        Some(Value::Array(items)) => items.iter().filter_map(text).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    };
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

/// The same, where a string may hold several, separated by commas.
fn text_list(value: Option<&Value>) -> Vec<String> {
    texts(value).iter().flat_map(|text| split_list(text)).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// The parsed rule as clients see it, without paths.
    fn check(text: &str, expected: Expect) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rule.md");
        std::fs::write(&path, text).unwrap();
        let mut problems = Vec::new();
        let shown = read_rule(path, Scope::User, &mut problems).map(|rule| {
            let mut shown = serde_json::to_value(rule).unwrap();
            let fields = shown.as_object_mut().unwrap();
            fields.retain(|key, value| {
                !matches!(key.as_str(), "name" | "path" | "_source") && *value != false
            });
            shown.to_string()
        });
        let problems = problems.join("\n").replace(&*folder.path().to_string_lossy(), "FOLDER");
        expected.assert_eq(&format!("{}{problems}", shown.unwrap_or_default()));
    }

    #[test]
    fn rule_fields_are_parsed() {
        check("Just words.\n", expect![[r#"{"content":"Just words.","condition":[]}"#]]);
        check(
            "---\ncondition: foo\n---\n\n Say bar. \r\n\n",
            expect![[r#"{"content":"Say bar.","condition":["foo"]}"#]],
        );
        check(
            "---\ncondition: [\"a\\\\d\", 7, \"\", {x: y}]\n---\n",
            expect![[r#"{"content":"","condition":["a\\d","7"]}"#]],
        );
        check("---\nttsr_trigger: a\n---\n", expect![[r#"{"content":"","condition":["a"]}"#]]);
        check(
            "---\nttsrTrigger: a\ncondition: b\n---\n",
            expect![[r#"{"content":"","condition":["b"]}"#]],
        );
        check(
            "---\ncondition: a\nscope: text, tool:edit(*.{ts,tsx})\nglobs: ['a/**', 'b, c']\n---\n",
            expect![[
                r#"{"content":"","globs":["a/**","b","c"],"condition":["a"],"scope":["text","tool:edit(*.{ts,tsx})"]}"#
            ]],
        );
        check(
            "---\ncondition: a\nscope: [thinking, 'tool:x(a,b)']\n---\n",
            expect![[r#"{"content":"","condition":["a"],"scope":["thinking","tool:x(a,b)"]}"#]],
        );
        check(
            "---\ncondition: a\ninterruptMode: tool-only\n---\n",
            expect![[r#"{"content":"","condition":["a"],"interruptMode":"tool-only"}"#]],
        );
        check(
            "---\ncondition: a\ninterruptMode: [x]\n---\n",
            expect![[
                r#"{"content":"","condition":["a"]}rule FOLDER/rule.md: interruptMode ["x"] must be one of never, prose-only, tool-only, always"#
            ]],
        );
        check(
            "---\nalwaysApply: true\ndescription: ' Why. '\n---\nBody.",
            expect![[
                r#"{"content":"Body.","alwaysApply":true,"description":"Why.","condition":[]}"#
            ]],
        );
        check(
            "---\ncondition: *.ts\n---\n",
            expect![
                "rule FOLDER/rule.md is ignored: while parsing node, found unknown anchor at line 2 column 12"
            ],
        );
    }

    #[test]
    fn file_globs_become_tool_scopes() {
        check(
            "---\ncondition: '*.ts'\n---\n",
            expect![[
                r#"{"content":"","condition":[".*"],"scope":["tool:edit(*.ts)","tool:write(*.ts)"]}"#
            ]],
        );
        check(
            "---\ncondition: ['src/**/*.{a,b}', 'b?/c']\nscope: text\n---\n",
            expect![[
                r#"{"content":"","condition":[".*"],"scope":["text","tool:edit(src/**/*.{a,b})","tool:write(src/**/*.{a,b})","tool:edit(b?/c)","tool:write(b?/c)"]}"#
            ]],
        );
        check(
            "---\ncondition: ['*.ts', ': any']\n---\n",
            expect![[
                r#"{"content":"","condition":[": any"],"scope":["tool:edit(*.ts)","tool:write(*.ts)"]}"#
            ]],
        );
        // Regular expressions that look a little like paths.
        check(
            "---\ncondition: ['a.*b', '(x/y)*', 'a/b', 'x\\.[ab]/']\n---\n",
            expect![[r#"{"content":"","condition":["a.*b","(x/y)*","a/b","x\\.[ab]/"]}"#]],
        );
    }
}
