//! `cargo xtask catalogue`: packs the hand-written model list into the format the program reads.
//!
//! Values that many models share are written once and referred to by number, and providers can be
//! skipped without reading their models. The result is text, in this order:
//!
//! ```text
//! counts of the six lists below, and the number of bytes before the models
//! providers: name, default model, bytes of its models
//! endpoints: API, URL
//! limits:    window, longest answer
//! prices:    in, out, cache read, cache write; for each tier, its threshold and the same four
//! levels:    names of the thinking levels
//! switches:  a JSON object
//! models:    id, name (empty if it is the id), and the fields of `Numbers`
//! ```
//!
//! Fields are separated by tabs. The reader is `crates/tiller-config/src/catalogue.rs`.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

const SOURCE: &str = "crates/tiller-config/data/models.txt";
const PACKED: &str = "crates/tiller-config/data/catalogue.txt";

pub(crate) fn catalogue(root: &Path) -> Result<(), String> {
    let source = root.join(SOURCE);
    let text = std::fs::read_to_string(&source)
        .map_err(|err| format!("cannot read {}: {err}", source.display()))?;
    let packed = pack(&text).map_err(|why| format!("{SOURCE}:{why}"))?;
    let target = root.join(PACKED);
    std::fs::write(&target, &packed)
        .map_err(|err| format!("cannot write {}: {err}", target.display()))?;
    println!("catalogue: {} bytes in {PACKED}", packed.len());
    Ok(())
}

/// The packed text, or the invalid line and why.
fn pack(text: &str) -> Result<String, String> {
    let mut packing = Packer::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            packing.line(line).map_err(|why| format!("{}: {why}", number + 1))?;
        }
    }
    packing.finish()
}

#[derive(Default)]
struct Packer {
    providers: Vec<Provider>,
    endpoints: Numbered,
    limits: Numbered,
    prices: Numbered,
    levels: Numbered,
    switches: Numbered,
    /// The endpoint and the switches of the following models.
    endpoint: Option<usize>,
    default_switches: usize,
}

#[derive(Default)]
struct Provider {
    name: String,
    default: String,
    ids: Vec<String>,
    models: String,
}

/// Each distinct text once, by its number.
#[derive(Default)]
struct Numbered {
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Numbered {
    fn number(&mut self, text: String) -> usize {
        let next = self.texts.len();
        let number = *self.numbers.entry(text.clone()).or_insert(next);
        if number == next {
            self.texts.push(text);
        }
        number
    }
}

impl Packer {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.contains('|') {
            return self.model(line);
        }
        let (word, rest) = line.split_once(' ').ok_or("expected a model or a word and a value")?;
        match word {
            "provider" => {
                if self.providers.iter().any(|provider| provider.name == rest) {
                    return Err(format!("`{rest}` is defined twice"));
                }
                self.providers.push(Provider { name: rest.to_owned(), ..Provider::default() });
                self.endpoint = None;
            }
            "default" => self.provider()?.default = rest.to_owned(),
            "at" => {
                let (api, url) = rest.split_once(' ').ok_or("expected an API and a URL")?;
                self.endpoint = Some(self.endpoints.number(format!("{api}\t{url}")));
            }
            "with" => self.default_switches = self.switches.number(json(rest)?),
            other => return Err(format!("`{other}` is not a known word")),
        }
        Ok(())
    }

    fn provider(&mut self) -> Result<&mut Provider, String> {
        self.providers.last_mut().ok_or_else(|| "expected `provider` before it".to_owned())
    }

    fn model(&mut self, line: &str) -> Result<(), String> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, name, limits, price, abilities] = columns[..] else {
            return Err(format!("expected 5 columns, found {}", columns.len()));
        };
        let endpoint = self.endpoint.ok_or("expected `at` before it")?;
        let mut numbers = Numbers {
            endpoint,
            limits: self.limits.number(self::limits(limits)?),
            price: self.prices.number(tiers(price)?),
            levels: None,
            switches: self.default_switches,
            thinks: false,
            sees: false,
        };
        let (abilities, switches) = match abilities.split_once("with ") {
            Some((abilities, switches)) => (abilities, Some(switches)),
            None => (abilities, None),
        };
        if let Some(switches) = switches {
            numbers.switches = self.switches.number(json(switches)?);
        }
        for ability in abilities.split_whitespace() {
            match ability.split_once('=') {
                None if ability == "images" => numbers.sees = true,
                None if ability == "thinks" => numbers.thinks = true,
                Some(("levels", names)) => {
                    numbers.levels = Some(self.levels.number(levels(names)?));
                }
                _ => return Err(format!("`{ability}` is not a known ability")),
            }
        }
        let provider = self.provider()?;
        if provider.ids.iter().any(|known| known == id) {
            return Err(format!("`{id}` is defined twice"));
        }
        provider.ids.push(id.to_owned());
        let name = if name == id { "" } else { name };
        writeln!(provider.models, "{id}\t{name}\t{}", numbers.encode())
            .expect("a String takes everything");
        Ok(())
    }

    fn finish(self) -> Result<String, String> {
        let mut providers = Vec::new();
        for Provider { name, default, ids, models } in &self.providers {
            if !ids.contains(default) {
                return Err(format!(" `{name}` has no model `{default}` to be its default"));
            }
            providers.push(format!("{name}\t{default}\t{}", models.len()));
        }
        let lists = [self.endpoints, self.limits, self.prices, self.levels, self.switches];
        let lists: Vec<_> =
            [providers].into_iter().chain(lists.into_iter().map(|list| list.texts)).collect();
        let counts: String = lists.iter().map(|list| format!("{}\t", list.len())).collect();
        let head: String = lists.iter().flatten().map(|line| format!("{line}\n")).collect();
        // The length has leading zeros, so that its own size is fixed.
        let before = counts.len() + "000000\n".len() + head.len();
        let models: String = self.providers.into_iter().map(|provider| provider.models).collect();
        Ok(format!("{counts}{before:06}\n{head}{models}"))
    }
}

/// The numbers of a model's shared values, and its abilities.
struct Numbers {
    endpoint: usize,
    limits: usize,
    price: usize,
    levels: Option<usize>,
    switches: usize,
    thinks: bool,
    sees: bool,
}

impl Numbers {
    fn encode(&self) -> String {
        let Numbers { endpoint, limits, price, switches, .. } = self;
        let levels = self.levels.map_or("-".to_owned(), |levels| levels.to_string());
        let (thinks, sees) = (u8::from(self.thinks), u8::from(self.sees));
        format!("{endpoint}\t{limits}\t{price}\t{levels}\t{switches}\t{thinks}{sees}")
    }
}

fn limits(text: &str) -> Result<String, String> {
    let (window, answer) = text.split_once(' ').ok_or("expected a window and a longest answer")?;
    Ok(format!("{}\t{}", tokens(window)?, tokens(answer)?))
}

fn tokens(text: &str) -> Result<u64, String> {
    let (digits, times) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1_000_000),
            None => (text, 1),
        },
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a number of tokens"))?;
    Ok(number * times)
}

/// The standard prices, and those of longer prompts.
fn tiers(text: &str) -> Result<String, String> {
    let mut steps = text.split(", above ");
    let mut all = prices(steps.next().unwrap_or_default())?;
    for step in steps {
        let (above, rest) = step.split_once(' ').ok_or("expected prices after `above`")?;
        write!(all, "\t{}\t{}", tokens(above)?, prices(rest)?).expect("a String takes everything");
    }
    Ok(all)
}

fn prices(text: &str) -> Result<String, String> {
    let prices: Vec<&str> = text.split(' ').collect();
    let is_price = |price: &&str| price.parse::<f64>().is_ok_and(|price| price >= 0.0);
    if prices.len() != 4 || !prices.iter().all(is_price) {
        return Err(format!("expected four prices, found `{text}`"));
    }
    Ok(prices.join("\t"))
}

const LEVELS: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// One field per level: its name at the provider, `-` for none, and empty if not given.
fn levels(text: &str) -> Result<String, String> {
    let mut names = [""; LEVELS.len()];
    for part in text.split(',') {
        let (level, name) = part.split_once(':').unwrap_or((part, part));
        let at = LEVELS.iter().position(|known| *known == level);
        names[at.ok_or_else(|| format!("`{level}` is not a level"))?] = name;
    }
    Ok(names.join("\t"))
}

fn json(switches: &str) -> Result<String, String> {
    if switches == "nothing" {
        return Ok(String::new());
    }
    let mut fields = Vec::new();
    for switch in switches.split(' ') {
        let field = match (switch.strip_prefix('+'), switch.strip_prefix('-')) {
            (Some(name), _) => format!("\"{name}\":true"),
            (_, Some(name)) => format!("\"{name}\":false"),
            _ => {
                let (name, value) = switch
                    .split_once('=')
                    .ok_or_else(|| format!("`{switch}` is not a switch: +on -off name=value"))?;
                // Anything but a name is already JSON.
                let is_json = value.starts_with(['{', '[']);
                let quote = if is_json { "" } else { "\"" };
                format!("\"{name}\":{quote}{value}{quote}")
            }
        };
        fields.push(field);
    }
    Ok(format!("{{{}}}", fields.join(",")))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(source: &str, expected: Expect) {
        let packed = pack(source).unwrap_or_else(|why| format!("models.txt:{why}\n"));
        expected.assert_eq(&packed.replace('\t', " "));
    }

    #[test]
    fn shared_values_are_written_once() {
        check(
            "# A comment.\n\
             provider one\ndefault b\nat talk https://one.example\nwith +x -y z=word\n\
             a | A | 1M 64k | 1 2 0.1 0 | images thinks levels=off:-,low,max:most\n\
             b | b | 1M 64k | 1 2 0.1 0, above 200k 2 4 0.2 0 |\n\
             c | C | 128 16 | 1 2 0.1 0 | thinks with w={\"a\":[1]}\n\n\
             provider two\ndefault a\nat talk https://two.example\nwith nothing\n\
             a | A | 1M 64k | 0 0 0 0 | images\n",
            expect![[r#"
                2 2 2 3 1 3 000217
                one b 50
                two a 17
                talk https://one.example
                talk https://two.example
                1000000 64000
                128 16
                1 2 0.1 0
                1 2 0.1 0 200000 2 4 0.2 0
                0 0 0 0
                -  low    most
                {"x":true,"y":false,"z":"word"}
                {"w":{"a":[1]}}

                a A 0 0 0 0 0 11
                b  0 0 1 - 0 00
                c C 0 1 0 - 1 10
                a A 1 0 2 - 2 01
            "#]],
        );
    }

    #[test]
    fn invalid_line_is_reported_with_its_number() {
        let refused = |lines: &str| {
            let begin = "provider p\ndefault a\nat talk https://p.example\nwith nothing\n";
            pack(&format!("{begin}{lines}")).unwrap_err()
        };
        let report: Vec<String> = [
            "a | A | 1k 1k | 1 2 3 | images",
            "a | A | 1k 1k | 1 2 3 -4 |",
            "a | A | 1k | 1 2 3 4 |",
            "a | A | 1k many | 1 2 3 4 |",
            "a | A | 1k 1k | 1 2 3 4",
            "a | A | 1k 1k | 1 2 3 4 | sings",
            "a | A | 1k 1k | 1 2 3 4 | levels=some",
            "a | A | 1k 1k | 1 2 3 4 | with x",
            "a | A | 1k 1k | 1 2 3 4 |\na | A | 1k 1k | 1 2 3 4 |",
            "b | B | 1k 1k | 1 2 3 4 |",
            "provider p",
            "hello there",
            "hello",
        ]
        .map(refused)
        .to_vec();
        expect![[r#"
            5: expected four prices, found `1 2 3`
            5: expected four prices, found `1 2 3 -4`
            5: expected a window and a longest answer
            5: `many` is not a number of tokens
            5: expected 5 columns, found 4
            5: `sings` is not a known ability
            5: `some` is not a level
            5: `x` is not a switch: +on -off name=value
            6: `a` is defined twice
             `p` has no model `a` to be its default
            5: `p` is defined twice
            5: `hello` is not a known word
            5: expected a model or a word and a value"#]]
        .assert_eq(&report.join("\n"));
    }

    #[test]
    fn packed_catalogue_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path| std::fs::read_to_string(root.join(path)).unwrap();
        let packed = pack(&read(SOURCE)).unwrap();
        assert!(packed == read(PACKED), "{PACKED} is outdated: run `cargo xtask catalogue`");
        assert!(packed.len() < 200_000, "{} bytes", packed.len());
    }
}
