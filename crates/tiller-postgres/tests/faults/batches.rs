//! Appends that share a statement do not share their fate.

use std::thread;

use tiller_session::Error;

use crate::cluster::Database;
use crate::host::{Host, append, with};
use crate::ledger::Ledger;

/// The database refuses the entries of one session, whatever the reason.
#[test]
fn refused_append_does_not_stop_those_of_other_sessions() {
    let Some(database) = Database::start(&[]) else { return };
    let proxy = database.proxy();
    let host = Host::new("host", &with(&proxy.url(&database.url), "connections=2"));
    let mut ledgers: Vec<Ledger> = (0..20).map(|_| Ledger::new()).collect();
    let mut sessions: Vec<_> = ledgers.iter_mut().map(|ledger| host.create(ledger, 1)).collect();
    let refused = ledgers[7].id.clone();
    database.sql(&format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'refused'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON tiller.entry FOR EACH ROW
         WHEN (NEW.session = '{refused}') EXECUTE FUNCTION refuse()"
    ));
    // Appends wait for each other, and share statements.
    proxy.delay(std::time::Duration::from_millis(3));
    thread::scope(|scope| {
        for (session, ledger) in sessions.iter_mut().zip(&mut ledgers) {
            let refused = &refused;
            scope.spawn(move || {
                for number in 1..11 {
                    match append(session, "host", number) {
                        Ok(id) => ledger.acknowledge("host", number, &id),
                        Err(Error::Database { reason, .. }) => {
                            assert_eq!((reason.as_str(), &ledger.id), ("refused (P0001)", refused));
                            ledger.refuse("host", number);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    drop(sessions);
    let totals = database.close(ledgers, &host);
    assert_eq!((totals.acknowledged, totals.lost, totals.twice), (20 + 190, 0, 0));
}
