//! All rules, compiled.

use std::fmt;
use std::sync::Arc;

use super::Rule;
use super::automaton::{Automaton, Expression};
use super::backtracking::Backtracking;
use super::pattern::{Pattern, translate};
use super::scope::Scope;

/// Compiled rules.
pub struct RuleSet {
    pub(super) rules: Vec<CompiledRule>,
    pub(super) conditions: Conditions,
}

/// A compiled rule.
pub(super) struct CompiledRule {
    pub(super) rule: Arc<Rule>,
    pub(super) scope: Scope,
    /// Its conditions, by number.
    pub(super) conditions: Vec<usize>,
}

/// The conditions of all rules, by number.
pub(super) struct Conditions {
    /// Matches conditions without look-around, and the approximations of the others.
    pub(super) automaton: Automaton,
    pub(super) count: usize,
    /// Conditions that match every text.
    pub(super) everywhere: Vec<usize>,
    pub(super) around: Vec<RuleContext>,
    /// Conditions of the automaton that are only approximations.
    pub(super) is_loose: Vec<bool>,
}

/// A condition with look-around.
pub(super) struct RuleContext {
    pub(super) number: usize,
    pub(super) exact: Backtracking,
}

/// The result of compiling rules.
#[derive(Debug, Default)]
pub struct Compiled {
    pub set: Option<Arc<RuleSet>>,
    /// Rules without a usable condition.
    pub rest: Vec<Rule>,
    /// Problems, as sentences that name the file.
    pub problems: Vec<String>,
}

/// A parsed condition. One with look-around has both the approximation and the full expression.
struct Condition {
    expression: Expression,
    exact: Option<Backtracking>,
}

impl RuleSet {
    pub fn compile(rules: Vec<Rule>) -> Compiled {
        let mut compiled = Compiled::default();
        let (mut expressions, mut around) = (Vec::new(), Vec::new());
        let mut watchers = Vec::new();
        for rule in rules {
            let mut reasons = Vec::new();
            let conditions = read_all(&rule.condition, &mut reasons);
            let scope = if conditions.is_empty() {
                None
            } else {
                Some(Scope::read(&rule.scope, &rule.globs, &mut reasons))
            };
            let shown = rule.path.display();
            let problems = reasons.into_iter().map(|why| format!("rule {shown}: {why}"));
            compiled.problems.extend(problems);
            match scope {
                None => compiled.rest.push(rule),
                Some(Err(why)) => {
                    compiled.problems.push(format!("rule {shown} is ignored: {why}"));
                }
                Some(Ok(scope)) => {
                    let mut numbers = Vec::new();
                    for Condition { expression, exact } in conditions {
                        let number = expressions.len();
                        numbers.push(number);
                        expressions.push(expression);
                        around.extend(exact.map(|exact| RuleContext { number, exact }));
                    }
                    watchers.push(CompiledRule {
                        rule: Arc::new(rule),
                        scope,
                        conditions: numbers,
                    });
                }
            }
        }
        if watchers.is_empty() {
            return compiled;
        }
        let automaton = match Automaton::new(&expressions) {
            Ok(automaton) => automaton,
            Err(why) => {
                let why = format!("no rule watches: together they are too large ({why})");
                compiled.problems.push(why);
                return compiled;
            }
        };
        let everywhere = expressions.iter().enumerate();
        let everywhere = everywhere.filter(|(_, expression)| expression.is_everywhere());
        let mut is_loose = vec![false; expressions.len()];
        around.iter().for_each(|condition: &RuleContext| is_loose[condition.number] = true);
        let conditions = Conditions {
            automaton,
            count: expressions.len(),
            everywhere: everywhere.map(|(number, _)| number).collect(),
            around,
            is_loose,
        };
        compiled.set = Some(Arc::new(RuleSet { rules: watchers, conditions }));
        compiled
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rules.iter().map(|watcher| &watcher.rule.name);
        f.debug_list().entries(names).finish()
    }
}

fn read_all(sources: &[String], reasons: &mut Vec<String>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for source in sources {
        match read(source) {
            Ok(condition) => conditions.push(condition),
            Err(why) => reasons.push(format!("the condition `{source}` is ignored: {why}")),
        }
    }
    conditions
}

fn read(source: &str) -> Result<Condition, String> {
    let Pattern { regex, loose } = translate(source)?;
    match loose {
        Some(loose) => {
            let exact = Some(Backtracking::read(&regex)?);
            Ok(Condition { expression: Expression::read(&loose)?, exact })
        }
        None => Ok(Condition { expression: Expression::read(&regex)?, exact: None }),
    }
}
