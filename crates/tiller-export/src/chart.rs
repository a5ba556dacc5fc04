//! Two small charts of a run: tokens and cost per answer, and use of the context window.

use crate::scan::{Answer, Scan};
use crate::text::{brief, counted, dollars, grouped};

/// Width and height of a chart, in its own units; the browser scales it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 72.0;
/// With more answers, several share a column.
const COLUMNS_MAX: usize = 120;

/// Both charts, or nothing if there is too little data. `is_on_path` takes an index; `window` is
/// the context window of the last model.
pub(crate) fn charts(
    scan: &Scan,
    is_on_path: impl Fn(usize) -> bool,
    window: Option<u64>,
    out: &mut String,
) {
    if scan.answers.len() < 2 {
        return;
    }
    out.push_str("<div class=\"charts\">");
    spending(&scan.answers, out);
    let path: Vec<Answer> =
        scan.answers.iter().filter(|answer| is_on_path(answer.index)).copied().collect();
    let compactions: Vec<usize> =
        scan.compactions.iter().filter(|index| is_on_path(**index)).copied().collect();
    if path.len() > 1 {
        filling(&path, &compactions, window, out);
    }
    out.push_str("</div>");
}

/// Tokens as bars, the accumulated cost as a line.
fn spending(answers: &[Answer], out: &mut String) {
    let columns: Vec<Column> = columns(answers);
    let highest = columns.iter().map(Column::tokens).max().unwrap_or(0).max(1);
    let total: f64 = answers.iter().map(|answer| answer.cost).sum();
    let tokens = answers.iter().map(Answer::context).fold(0, u64::saturating_add);
    let title = format!(
        "Tokens and cost over {}: {} tokens, {}",
        counted(answers.len() as u64, "answer"),
        grouped(tokens),
        dollars(total),
    );
    let most = answers.iter().map(Answer::context).max().unwrap_or(0);
    caption(
        &format!("Tokens per answer, at most {}", brief(most)),
        &[("cached", "cached"), ("input", "input"), ("output", "output")],
        out,
    );
    if total > 0.0 {
        out.push_str("<span class=\"key cost\">cost, ");
        out.push_str(&dollars(total));
        out.push_str(" in all</span>");
    }
    open(&title, out);
    let width = WIDTH / columns.len() as f64;
    let gap = (width * 0.2).min(2.0);
    let height = |tokens: u64| tokens as f64 / highest as f64 * HEIGHT;
    for class in ["cached", "input", "output"] {
        out.push_str(&format!("<path class=\"{class}\" d=\""));
        for (at, column) in columns.iter().enumerate() {
            let (below, tokens) = column.part(class);
            if tokens > 0 {
                let left = at as f64 * width;
                let bottom = HEIGHT - height(below);
                // Keep a minimum height visible.
                let tall = height(tokens).max(0.75);
                out.push_str(&format!(
                    "M{left:.1} {bottom:.1}h{:.1}v-{tall:.1}h-{:.1}z",
                    width - gap,
                    width - gap
                ));
            }
        }
        out.push_str("\"/>");
    }
    if total > 0.0 {
        out.push_str("<path class=\"cost\" d=\"M0 ");
        out.push_str(&format!("{HEIGHT:.0}"));
        let mut spent = 0.0;
        for (at, column) in columns.iter().enumerate() {
            spent += column.cost;
            let y = HEIGHT - spent / total * (HEIGHT - 2.0) - 1.0;
            out.push_str(&format!("L{:.1} {y:.1}", (at + 1) as f64 * width));
        }
        out.push_str("\"/>");
    }
    close(out);
}

/// Use of the context window after each answer, with compactions.
fn filling(answers: &[Answer], compactions: &[usize], window: Option<u64>, out: &mut String) {
    let columns = columns(answers);
    let peak = columns.iter().map(|column| column.context).max().unwrap_or(0).max(1);
    // Scale a nearly empty window, so that something is visible.
    let limit = window.filter(|window| *window > 0);
    let shown_limit = limit.filter(|window| peak.saturating_mul(4) >= *window);
    let top = shown_limit.map_or(peak, |window| window.max(peak)) as f64 * 1.06;
    let share = limit
        .map(|window| format!(" of {}, {}%", brief(window), peak.saturating_mul(100) / window));
    let share = share.unwrap_or_default();
    let title = format!(
        "Context window over {}: at most {} tokens{share}; {}",
        counted(answers.len() as u64, "answer"),
        grouped(peak),
        counted(compactions.len() as u64, "compaction"),
    );
    caption("Context window", &[("fill", &format!("peak {}{share}", brief(peak)))], out);
    if !compactions.is_empty() {
        out.push_str("<span class=\"key compaction\">");
        out.push_str(&counted(compactions.len() as u64, "compaction"));
        out.push_str("</span>");
    }
    open(&title, out);
    let width = WIDTH / columns.len() as f64;
    let y = |tokens: u64| HEIGHT - tokens as f64 / top * HEIGHT;
    let mut line = String::new();
    for (at, column) in columns.iter().enumerate() {
        let y = y(column.context);
        let left = at as f64 * width;
        let right = (at + 1) as f64 * width;
        line.push_str(&format!("{}{left:.1} {y:.1}H{right:.1}", if at == 0 { "M" } else { "L" }));
    }
    out.push_str(&format!(
        "<path class=\"area\" d=\"{line}V{HEIGHT:.0}H0z\"/><path class=\"fill\" d=\"{line}\"/>"
    ));
    if let Some(window) = shown_limit {
        out.push_str(&format!("<path class=\"limit\" d=\"M0 {:.1}H{WIDTH:.0}\"/>", y(window)));
    }
    for &index in compactions {
        let before = answers.partition_point(|answer| answer.index < index);
        let x = before as f64 / answers.len() as f64 * WIDTH;
        out.push_str(&format!("<path class=\"compaction\" d=\"M{x:.1} 0V{HEIGHT:.0}\"/>"));
    }
    close(out);
}

/// The sum of a few adjacent answers.
#[derive(Default)]
struct Column {
    input: u64,
    cached: u64,
    output: u64,
    cost: f64,
    /// The largest of them.
    context: u64,
}

impl Column {
    /// The height below a part of the bar, and of the part.
    fn part(&self, class: &str) -> (u64, u64) {
        match class {
            "cached" => (0, self.cached),
            "input" => (self.cached, self.input),
            _ => (self.cached.saturating_add(self.input), self.output),
        }
    }

    fn tokens(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.output)
    }
}

fn columns(answers: &[Answer]) -> Vec<Column> {
    let each = answers.len().div_ceil(COLUMNS_MAX).max(1);
    let column = |answers: &[Answer]| {
        answers.iter().fold(Column::default(), |column, answer| Column {
            input: column.input.saturating_add(answer.input),
            cached: column.cached.saturating_add(answer.cached),
            output: column.output.saturating_add(answer.output),
            cost: column.cost + answer.cost,
            context: column.context.max(answer.context()),
        })
    };
    answers.chunks(each).map(column).collect()
}

fn caption(title: &str, keys: &[(&str, &str)], out: &mut String) {
    out.push_str(&format!("<figure class=\"chart\"><figcaption><b>{title}</b>"));
    for (class, name) in keys {
        out.push_str(&format!("<span class=\"key {class}\">{name}</span>"));
    }
}

fn open(title: &str, out: &mut String) {
    out.push_str(&format!(
        "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{title}\"><title>{title}</title>",
    ));
}

fn close(out: &mut String) {
    out.push_str("</svg></figure>");
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn answer(index: usize, cached: u64, output: u64, cost: f64) -> Answer {
        Answer { index, model: 0, input: 10, cached, output, cost }
    }

    #[test]
    fn a_run_has_two_pictures() {
        let scan = Scan {
            answers: vec![answer(1, 0, 5, 0.1), answer(3, 100, 10, 0.2), answer(6, 20, 5, 0.0)],
            compactions: vec![5],
            ..Scan::default()
        };
        let mut out = String::new();
        charts(&scan, |_| true, Some(200), &mut out);
        expect![[r#"
            <div class="charts">
            <figure class="chart">
            <figcaption>
            <b>Tokens per answer, at most 120</b>
            <span class="key cached">cached</span>
            <span class="key input">input</span>
            <span class="key output">output</span>
            <span class="key cost">cost, $0.3000 in all</span>
            </figcaption>
            <svg viewBox="0 0 600 72" preserveAspectRatio="none" role="img" aria-label="Tokens and cost over 3 answers: 170 tokens, $0.3000">
            <title>Tokens and cost over 3 answers: 170 tokens, $0.3000</title>
            <path class="cached" d="M200.0 72.0h198.0v-60.0h-198.0zM400.0 72.0h198.0v-12.0h-198.0z"/>
            <path class="input" d="M0.0 72.0h198.0v-6.0h-198.0zM200.0 12.0h198.0v-6.0h-198.0zM400.0 60.0h198.0v-6.0h-198.0z"/>
            <path class="output" d="M0.0 66.0h198.0v-3.0h-198.0zM200.0 6.0h198.0v-6.0h-198.0zM400.0 54.0h198.0v-3.0h-198.0z"/>
            <path class="cost" d="M0 72L200.0 47.7L400.0 1.0L600.0 1.0"/>
            </svg>
            </figure>
            <figure class="chart">
            <figcaption>
            <b>Context window</b>
            <span class="key fill">peak 120 of 200, 60%</span>
            <span class="key compaction">1 compaction</span>
            </figcaption>
            <svg viewBox="0 0 600 72" preserveAspectRatio="none" role="img" aria-label="Context window over 3 answers: at most 120 tokens of 200, 60%; 1 compaction">
            <title>Context window over 3 answers: at most 120 tokens of 200, 60%; 1 compaction</title>
            <path class="area" d="M0.0 66.9H200.0L200.0 31.2H400.0L400.0 60.1H600.0V72H0z"/>
            <path class="fill" d="M0.0 66.9H200.0L200.0 31.2H400.0L400.0 60.1H600.0"/>
            <path class="limit" d="M0 4.1H600"/>
            <path class="compaction" d="M400.0 0V72"/>
            </svg>
            </figure>
            </div>"#]].assert_eq(&out.replace("><", ">\n<"));
    }

    #[test]
    fn a_long_run_has_few_columns() {
        let answers: Vec<Answer> = (0..100_000).map(|index| answer(index, 5, 5, 0.01)).collect();
        let scan = Scan { answers, ..Scan::default() };
        let mut out = String::new();
        charts(&scan, |_| true, None, &mut out);
        assert!(out.len() < 30_000, "{}", out.len());
        let mut nothing = String::new();
        charts(&Scan::default(), |_| true, None, &mut nothing);
        assert_eq!(nothing, "");
    }
}
