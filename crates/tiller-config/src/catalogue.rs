//! The built-in model catalogue, as packed by `cargo xtask catalogue`.
//!
//! The packed text is parsed on demand: a provider's name needs only the list of providers, a model
//! only its provider's lines. Start-up reads nothing.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tiller_agent::model::{Modality, Model, Price, PriceTier, ThinkingLevel};

static PACKED: &str = include_str!("../data/catalogue.txt");

/// The parsed text. All registries of a process share it.
pub(crate) struct Catalogue(&'static Tables);

#[derive(Default)]
struct Tables {
    index: OnceLock<Index>,
    /// Values that models share; parsed with the first model.
    shared: OnceLock<Shared>,
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        static TABLES: Tables = Tables { index: OnceLock::new(), shared: OnceLock::new() };
        Catalogue(&TABLES)
    }
}

/// A provider and the range of its models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    /// The id of its default model.
    pub(crate) default: &'static str,
    models: &'static str,
}

/// A model as far as its own line describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogueEntry {
    pub(crate) provider: &'static str,
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    numbers: Numbers,
}

#[derive(Clone, Copy, Debug)]
struct Numbers {
    endpoint: usize,
    limits: usize,
    price: usize,
    levels: Option<usize>,
    switches: usize,
    thinks: bool,
    sees_images: bool,
}

struct Index {
    providers: Vec<Provider>,
    /// The tables after the providers, and the length of each.
    rest: &'static str,
    counts: Vec<usize>,
}

struct Shared {
    endpoints: Vec<&'static str>,
    limits: Vec<&'static str>,
    prices: Vec<&'static str>,
    levels: Vec<&'static str>,
    switches: Vec<&'static str>,
}

impl Catalogue {
    /// Sorted by name.
    pub(crate) fn providers(&self) -> &[Provider] {
        &self.index().providers
    }

    pub(crate) fn provider(&self, name: &str) -> Option<Provider> {
        self.providers().iter().find(|provider| provider.name == name).copied()
    }

    pub(crate) fn find(&self, provider: &str, id: &str) -> Option<CatalogueEntry> {
        self.provider(provider)?.entries().find(|entry| entry.id == id)
    }

    /// The API of this model.
    pub(crate) fn api(&self, entry: &CatalogueEntry) -> &'static str {
        fields(self.shared().endpoints[entry.numbers.endpoint]).next().unwrap_or_default()
    }

    pub(crate) fn model(&self, entry: &CatalogueEntry) -> Model {
        let shared = self.shared();
        let Numbers { endpoint, limits, price, levels, switches, thinks, sees_images } =
            entry.numbers;
        let mut endpoint = fields(shared.endpoints[endpoint]).map(str::to_owned);
        let mut limits = fields(shared.limits[limits]).map(number);
        let input =
            if sees_images { vec![Modality::Text, Modality::Image] } else { vec![Modality::Text] };
        Model {
            id: entry.id.to_owned(),
            name: entry.name.to_owned(),
            api: endpoint.next().unwrap_or_default(),
            provider: entry.provider.to_owned(),
            base_url: endpoint.next().unwrap_or_default(),
            reasoning: thinks,
            thinking_level_map: levels.map(|levels| level_map(shared.levels[levels])),
            input,
            cost: self::price(shared.prices[price]),
            context_window: limits.next().unwrap_or(0),
            max_tokens: limits.next().unwrap_or(0),
            headers: BTreeMap::new(),
            compat: serde_json::from_str(shared.switches[switches]).ok(),
        }
    }

    /// A catalogue that nothing else has read.
    #[cfg(test)]
    pub(crate) fn unread() -> Catalogue {
        Catalogue(Box::leak(Box::default()))
    }

    #[cfg(test)]
    pub(crate) fn was_read(&self) -> bool {
        self.0.shared.get().is_some()
    }

    fn index(&self) -> &Index {
        self.0.index.get_or_init(|| {
            let (first, rest) = PACKED.split_once('\n').unwrap_or_default();
            let mut counts: Vec<usize> = fields(first).map(number).map(|n| n as usize).collect();
            let head_bytes = counts.pop().unwrap_or(0);
            let mut lines = rest.split_inclusive('\n');
            let providers = lines.by_ref().take(counts[0]).collect::<Vec<_>>();
            let rest = &rest[providers.iter().map(|line| line.len()).sum::<usize>()..];
            let mut models = &PACKED[head_bytes..];
            let provider = |line: &&'static str| {
                let mut fields = fields(line.trim_end_matches('\n'));
                let name = fields.next().unwrap_or_default();
                let default = fields.next().unwrap_or_default();
                let own;
                (own, models) = models.split_at(fields.next().map_or(0, number) as usize);
                Provider { name, default, models: own }
            };
            Index { providers: providers.iter().map(provider).collect(), rest, counts }
        })
    }

    fn shared(&self) -> &Shared {
        self.0.shared.get_or_init(|| {
            let Index { rest, counts, .. } = self.index();
            let mut lines = rest.lines();
            let mut list = |at: usize| lines.by_ref().take(counts[at]).collect::<Vec<_>>();
            Shared {
                endpoints: list(1),
                limits: list(2),
                prices: list(3),
                levels: list(4),
                switches: list(5),
            }
        })
    }
}

impl Provider {
    pub(crate) fn entries(self) -> impl Iterator<Item = CatalogueEntry> {
        self.models.lines().map(move |line| CatalogueEntry::read(self.name, line))
    }
}

impl CatalogueEntry {
    fn read(provider: &'static str, line: &'static str) -> CatalogueEntry {
        let mut fields = fields(line);
        let id = fields.next().unwrap_or_default();
        let name = fields.next().filter(|name| !name.is_empty()).unwrap_or(id);
        let mut next = || fields.next().unwrap_or_default();
        let numbers = Numbers {
            endpoint: number(next()) as usize,
            limits: number(next()) as usize,
            price: number(next()) as usize,
            levels: next().parse().ok(),
            switches: number(next()) as usize,
            thinks: next().starts_with('1'),
            sees_images: line.ends_with('1'),
        };
        CatalogueEntry { provider, id, name, numbers }
    }
}

fn fields(line: &'static str) -> impl Iterator<Item = &'static str> {
    line.split('\t')
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Four prices, then five numbers for each tier: its threshold, and its prices.
fn price(line: &'static str) -> Price {
    let mut numbers = fields(line).map(|number| number.parse().unwrap_or(0.0));
    let mut next = || numbers.next().unwrap_or(0.0);
    let (input, output, cache_read, cache_write) = (next(), next(), next(), next());
    let mut tiers = Vec::new();
    while let Some(above) = numbers.next() {
        let mut next = || numbers.next().unwrap_or(0.0);
        tiers.push(PriceTier {
            input_tokens_above: above as u64,
            input: next(),
            output: next(),
            cache_read: next(),
            cache_write: next(),
        });
    }
    Price { input, output, cache_read, cache_write, tiers }
}

fn level_map(line: &'static str) -> BTreeMap<ThinkingLevel, Option<String>> {
    let names = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
    let named = names.iter().zip(fields(line)).filter(|(_, name)| !name.is_empty());
    level_names(named.map(|(level, name)| (*level, (name != "-").then_some(name))))
}

/// The provider's names of thinking levels. Names of levels that do not exist are left out.
pub(crate) fn level_names<'a>(
    named: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> BTreeMap<ThinkingLevel, Option<String>> {
    let known = named.filter_map(|(level, name)| {
        let level = ThinkingLevel::read(level)?;
        Some((level, name.map(str::to_owned)))
    });
    known.collect()
}

#[cfg(test)]
mod tests;
