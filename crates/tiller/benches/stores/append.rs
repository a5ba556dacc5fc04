//! A session that stores one entry after another.

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use crate::Bench;
use crate::figures::{Table, Times, ms, ms_each, per_second};
use crate::place::{FILES, NOW, POSTGRES, Place, SYNCED_FILES, entry};
use crate::usage::Cpu;

/// Appends before the first one that counts.
const WARM_UP: usize = 50;

pub fn measure(bench: &Bench) -> String {
    let mut table = Table::new(&[
        "one session, 1 KB each",
        "median",
        "p99",
        "longest",
        "entries/s",
        "CPU of tiller each",
        "CPU of PostgreSQL each",
    ]);
    for kind in [FILES, SYNCED_FILES, POSTGRES] {
        let place = Place::new(bench, kind);
        let mut session = place.begin();
        let count = bench.sizes.appends;
        let mut times = Vec::with_capacity(count);
        let (mut since, mut cpu) = (Instant::now(), Cpu::now(bench));
        for number in 0..WARM_UP + count {
            if number == WARM_UP {
                (since, cpu) = (Instant::now(), Cpu::now(bench));
            }
            let body = entry(number);
            let begin = Instant::now();
            session.append(body, NOW).expect("the entry can be stored");
            if number >= WARM_UP {
                times.push(begin.elapsed());
            }
        }
        let (time, cpu) = (since.elapsed(), Cpu::now(bench).since(cpu));
        drop(session);
        place.close();
        let times = Times::of(times);
        table.row(&[
            kind.name(),
            ms(times.median()),
            ms(times.percentile(99)),
            ms(times.longest()),
            per_second(count, time),
            ms_each(cpu.own, count),
            ms_each(cpu.server, count),
        ]);
    }
    format!("A sync of 1 KB takes {} (median) on this disk.\n\n{}", disk_sync(bench), table.text())
}

/// How long the disk takes, without a store.
fn disk_sync(bench: &Bench) -> String {
    let mut file = File::create(bench.folder.path().join("sync")).expect("a file can be made");
    let times = (0..bench.sizes.appends.min(500)).map(|_| {
        let begin = Instant::now();
        file.write_all(&[b'x'; 1_000]).expect("the file can be written");
        file.sync_data().expect("the file can be synced");
        begin.elapsed()
    });
    ms(Times::of(times).median())
}
