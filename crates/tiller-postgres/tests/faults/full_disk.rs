//! A full disk of the server: appends fail or wait until there is room again, and nothing that was
//! acknowledged is lost.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::Database;
use crate::connections::take_over;
use crate::host::with;
use crate::postgres::StopMode;
use crate::processes::ledgers;
use crate::rounds::{Kind, Random, Totals, run};
use crate::skip::skip;
use crate::writer::{Event, Writer};

/// Room for a new cluster and some sessions.
const DISK: u64 = 160 << 20;

#[test]
fn full_disk_of_the_server_loses_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    let data = disk.folder.join("data");
    // Segments are made when they are needed, so that the log finds no room, too.
    let settings = [
        ("data_directory", data.to_str().unwrap()),
        ("wal_recycle", "off"),
        ("min_wal_size", "32MB"),
        ("max_wal_size", "48MB"),
    ];
    let Some(database) = Database::start(&settings) else { return };
    run(Kind::FullDisk, |random| fill(random, &database, &disk));
}

fn fill(random: &mut Random, database: &Database, disk: &SmallDisk) -> Totals {
    let mut sessions = ledgers(random.one_of(&[1, 4]));
    let url = with(&database.url, "takeover_seconds=3600&timeout_seconds=2");
    let writer = Writer::start("writer", &url, 4000, &mut sessions);
    writer.wait_for_entries(1 + random.below(10));
    let ballast = disk.fill(random.below(100_000));
    // Without room for the next segment of its log, the server ends.
    let is_log_full = random.below(2) == 0;
    if is_log_full {
        begin_segment(&database.url);
    }
    writer.wait_until("a failure", |events| {
        events.iter().any(|event| matches!(event, Event::Failed { .. }))
    });
    random.sleep_below(50);
    fs::remove_file(ballast).unwrap();
    if is_log_full {
        // It may have ended, or not.
        database.cluster.stop(StopMode::Immediate);
        database.cluster.start_again();
    }
    writer.wait_for_progress();
    writer.stop(&mut sessions);
    let totals = take_over(sessions, database);
    // The next round finds room.
    database.sql("VACUUM FULL");
    database.sql("CHECKPOINT");
    totals
}

/// Lets the server end the present segment of its log. It may not survive that.
fn begin_segment(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
        let Ok((client, connection)) = connected else { return };
        let connection = tokio::spawn(connection);
        client.batch_execute("SELECT pg_switch_wal()").await.ok();
        connection.abort();
    });
}

/// A file system that is soon full. It is removed when this is dropped.
struct SmallDisk {
    folder: PathBuf,
    _parent: tempfile::TempDir,
}

impl SmallDisk {
    /// None: the test is skipped, because only root may mount a file system.
    fn mount() -> Option<SmallDisk> {
        let parent = tempfile::tempdir().unwrap();
        // PostgreSQL runs as another user.
        let folder = parent.path().join("disk");
        fs::create_dir(&folder).unwrap();
        open_to_all(parent.path());
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK},mode=777"), "tmpfs"])
            .arg(&folder)
            .output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            skip("POSTGRES", "a small file system cannot be mounted");
            return None;
        }
        Some(SmallDisk { folder, _parent: parent })
    }

    /// Fills it except for this many bytes. Returns the file that does.
    fn fill(&self, left: u64) -> PathBuf {
        let path = self.folder.join("ballast");
        let file = fs::File::create(&path).unwrap();
        let block = vec![0; 64 * 1024];
        let mut end = 0;
        loop {
            match file.write_at(&block, end) {
                Ok(count) => end += count as u64,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
        file.set_len(end.saturating_sub(left)).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server may not have removed its files yet.
        Command::new("umount").arg("-l").arg(&self.folder).status().unwrap();
    }
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}
