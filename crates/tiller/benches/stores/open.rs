//! Opening a large session, each time in a process of its own: so its memory is that of the session.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiller_session::{DatabaseStore, Store, transfer};

use crate::Bench;
use crate::conversation::generate;
use crate::figures::{Table, Times, mb, ms};
use crate::place::{FILES, POSTGRES, Place, connect, files};
use crate::usage::{resident_bytes, status};

/// The first argument of a child.
const CHILD: &str = "open-large-session";

/// What a child has measured.
struct Opening {
    time: Duration,
    /// Of its memory.
    growth: u64,
    peak_growth: u64,
}

pub fn measure(bench: &Bench) -> String {
    let path = bench.folder.path().join("large.jsonl");
    let entries = bench.sizes.entries;
    let bytes = generate(&path, entries, bench.sizes.megabytes * 1_000_000).expect("there is room");
    let mut table = Table::new(&[
        &format!("{entries} entries, {}", mb(bytes)),
        "`open`",
        "memory",
        "peak",
        "`open_read_only`",
        "memory",
        "peak",
    ]);
    let in_files = Place::new(bench, FILES);
    let mut row = vec!["files".to_owned()];
    row.extend(openings(bench, "files", &path));
    table.row(&row);
    in_files.close();

    let place = Place::new(bench, POSTGRES);
    let database = place.database.as_ref().expect("it is a database");
    let begin = Instant::now();
    let imported = transfer::import(&database.sessions, &path).expect("the session can be stored");
    let time = begin.elapsed();
    let mut row = vec!["PostgreSQL".to_owned()];
    row.extend(openings(bench, &database.url, &imported.to));
    table.row(&row);
    place.close();
    format!("{}\nThe import takes {}.\n", table.text(), ms(time))
}

/// The cells of a row: `open`, then `open_read_only`.
fn openings(bench: &Bench, place: &str, location: &Path) -> Vec<String> {
    let mut cells = Vec::new();
    for method in ["open", "open_read_only"] {
        let openings: Vec<Opening> =
            (0..bench.sizes.opens).map(|_| child(place, method, location)).collect();
        let times = Times::of(openings.iter().map(|opening| opening.time));
        let most = |of: fn(&Opening) -> u64| openings.iter().map(of).max().unwrap_or(0);
        cells.push(ms(times.median()));
        cells.push(mb(most(|opening| opening.growth)));
        cells.push(mb(most(|opening| opening.peak_growth)));
    }
    cells
}

/// Runs this program again, to open the session once.
fn child(place: &str, method: &str, location: &Path) -> Opening {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args([CHILD, place, method])
        .arg(location)
        .output()
        .expect("this program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the session cannot be opened: {errors}");
    let output = String::from_utf8(output.stdout).expect("numbers are text");
    let numbers: Vec<u64> =
        output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[microseconds, growth, peak_growth] = numbers.as_slice() else {
        panic!("a child has printed {output}");
    };
    Opening { time: Duration::from_micros(microseconds), growth, peak_growth }
}

/// In a child: opens the session and returns the numbers. None: this is not a child.
pub fn in_child(arguments: &[String]) -> Option<String> {
    let [child, place, method, location] = arguments else { return None };
    if child != CHILD {
        return None;
    }
    let location = PathBuf::from(location);
    let postgres = (place != "files").then(|| connect(place));
    let store: Box<dyn Store> = match &postgres {
        None => Box::new(files(PathBuf::new())),
        Some(postgres) => {
            // Connects, as a server does at its start.
            postgres.check_version().expect("the tables are there");
            Box::new(DatabaseStore::new(Arc::new(postgres.clone()), std::env::temp_dir()))
        }
    };
    let before = resident_bytes();
    let begin = Instant::now();
    let session = match method.as_str() {
        "open" => store.open(&location),
        _ => store.open_read_only(&location),
    };
    let session = session.expect("the session can be opened");
    let time = begin.elapsed();
    let growth = resident_bytes().saturating_sub(before);
    let peak_growth = (status("VmHWM:") * 1024).saturating_sub(before);
    drop(session);
    if let Some(postgres) = postgres {
        postgres.close();
    }
    Some(format!("{} {growth} {peak_growth}\n", time.as_micros()))
}
