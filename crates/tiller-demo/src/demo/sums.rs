//! Simple arithmetic: `12 * (3 + 4)`, or the same in words.

/// The expression in a sentence and its value, if the sentence asks for one.
pub(crate) fn read(text: &str) -> Option<(String, Option<f64>)> {
    const ASKING: [&str; 10] =
        ["what", "is", "what's", "whats", "calculate", "compute", "how", "much", "equals", "="];
    const NAMED: [(&str, &str); 6] = [
        ("plus", "+"),
        ("minus", "-"),
        ("times", "*"),
        ("multiplied", "*"),
        ("divided", "/"),
        ("x", "*"),
    ];
    // An expression is short; long texts are not parsed.
    if text.len() > 200 {
        return None;
    }
    let mut sum = String::new();
    for word in text.trim_end_matches(['?', '.', '!', '=', ' ']).split_whitespace() {
        let word = word.to_lowercase();
        let named = NAMED.iter().find(|(name, _)| *name == word).map(|(_, sign)| *sign);
        match named {
            Some(sign) => sum.push_str(sign),
            None if word == "by" && sum.trim_end().ends_with(['*', '/']) => continue,
            None if sum.is_empty() && ASKING.contains(&word.as_str()) => continue,
            None => sum.push_str(&word),
        }
        sum.push(' ');
    }
    let sum = sum.trim_end().replace(['×', '·'], "*").replace('÷', "/");
    let numbers = |c: char| c.is_ascii_digit() || " .+-*/()".contains(c);
    let is_sum = sum.chars().all(numbers)
        && sum.contains(|c: char| c.is_ascii_digit())
        && sum.trim_start_matches('-').contains(['+', '-', '*', '/']);
    if !is_sum {
        return None;
    }
    let mut reader = Reader { rest: &sum, depth: 0 };
    let value = reader.sum()?;
    reader.next().is_none().then_some((sum, value.is_finite().then_some(value)))
}

/// Formats a number.
pub(crate) fn number(value: f64) -> String {
    // Six digits are enough for a demo, and make 0.1 + 0.2 equal 0.3.
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, signs: &[char]) -> Option<char> {
        let sign = self.next().filter(|sign| signs.contains(sign))?;
        self.rest = &self.rest[1..];
        Some(sign)
    }

    fn sum(&mut self) -> Option<f64> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let next = self.product()?;
            value = if sign == '+' { value + next } else { value - next };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<f64> {
        let mut value = self.value()?;
        while let Some(sign) = self.take(&['*', '/']) {
            let next = self.value()?;
            value = if sign == '*' { value * next } else { value / next };
        }
        Some(value)
    }

    fn value(&mut self) -> Option<f64> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        let value = if self.take(&['-']).is_some() {
            self.value().map(|value| -value)
        } else if self.take(&['(']).is_some() {
            let value = self.sum()?;
            self.take(&[')']).map(|_| value)
        } else {
            self.next()?;
            let digits = |c: char| !c.is_ascii_digit() && c != '.';
            let end = self.rest.find(digits).unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            number.parse().ok()
        };
        self.depth -= 1;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let found = read(text).map(|(sum, value)| {
            let value = value.map_or("nothing".into(), number);
            format!("{sum} = {value}")
        });
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn expressions_are_evaluated() {
        check("What is 2+2?", Some("2+2 = 4"));
        check("12 * (3 + 4)", Some("12 * (3 + 4) = 84"));
        check("calculate 7 divided by 2", Some("7 / 2 = 3.5"));
        check("what's 3 times -4", Some("3 * -4 = -12"));
        check("2 + 3 * 4 - 1 =", Some("2 + 3 * 4 - 1 = 13"));
        check("0.1 + 0.2", Some("0.1 + 0.2 = 0.3"));
        check("1 / 0", Some("1 / 0 = nothing"));
        check("0 * -1", Some("0 * -1 = 0"));
    }

    #[test]
    fn other_texts_are_not_expressions() {
        check("What is 2", None);
        check("2026-11-16?", Some("2026-11-16 = 1999"));
        check("what is a + b", None);
        check("1 + ", None);
        check("(1 + 2", None);
        check("1 2 + 3", None);
        check("-5", None);
        check(&"(".repeat(150), None);
        check(&format!("{}1 + 1", "-".repeat(100)), None);
        check("", None);
    }
}
