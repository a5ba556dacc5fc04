//! Checks a schema when its tool is registered.
//!
//! Only one thing makes a schema unusable by itself: `anyOf` and `oneOf` that lead to each other by
//! references. They are tried on the same value again and again, endlessly or for very long.
//! Problems that depend on the arguments are found during the check of a call.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::effort::{DEPTH_MAX, Effort, Exceeded};
use super::resolve;

/// How many forms may be tried on one value.
const FORMS_MAX: usize = 10_000;

/// Refuses, with a reason, a schema that cannot be checked in bounded time.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    let mut survey =
        Survey { root: schema, forms: HashMap::new(), effort: Effort::new(), depth: 0 };
    survey.everything().map_err(|fault| match fault {
        Fault::Circular => "the schema refers to itself without end (anyOf, oneOf)".to_owned(),
        Fault::Forms => format!("the schema allows more than {FORMS_MAX} forms for one value"),
        Fault::Exceeded(exceeded) => exceeded.reason(),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Circular,
    Forms,
    Exceeded(Exceeded),
}

impl From<Exceeded> for Fault {
    fn from(exceeded: Exceeded) -> Fault {
        Fault::Exceeded(exceeded)
    }
}

struct Survey<'a> {
    root: &'a Value,
    /// How many forms a schema tries on one value, by its address; `None` while counting.
    forms: HashMap<*const Value, Option<usize>>,
    effort: Effort,
    depth: usize,
}

impl<'a> Survey<'a> {
    fn everything(&mut self) -> Result<(), Fault> {
        let mut seen = HashSet::new();
        let mut waiting = vec![self.root];
        while let Some(schema) = waiting.pop() {
            let schema = resolve(self.root, schema, &mut self.effort)?;
            if !seen.insert(std::ptr::from_ref(schema)) {
                continue;
            }
            self.forms(schema)?;
            let before = waiting.len();
            let lists =
                ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
            waiting.extend(lists.flatten());
            let properties = schema.get("properties").and_then(Value::as_object);
            waiting.extend(properties.into_iter().flat_map(|properties| properties.values()));
            let single = ["items", "additionalProperties"].into_iter();
            waiting.extend(single.filter_map(|key| schema.get(key)));
            self.effort.spend(waiting.len() - before)?;
        }
        Ok(())
    }

    /// How many forms are tried on one value.
    fn forms(&mut self, schema: &'a Value) -> Result<usize, Fault> {
        let schema = resolve(self.root, schema, &mut self.effort)?;
        match self.forms.get(&std::ptr::from_ref(schema)) {
            Some(Some(forms)) => return Ok(*forms),
            Some(None) => return Err(Fault::Circular),
            None => {}
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Exceeded::Depth.into());
        }
        self.forms.insert(std::ptr::from_ref(schema), None);
        let mut forms = 1;
        let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"));
        for choice in choices.and_then(Value::as_array).into_iter().flatten() {
            forms += self.forms(choice)?;
            if forms > FORMS_MAX {
                return Err(Fault::Forms);
            }
        }
        self.forms.insert(std::ptr::from_ref(schema), Some(forms));
        self.depth -= 1;
        Ok(forms)
    }
}
