//! Lists of pods: of all, and of a tenth that a label selects.

use std::time::Instant;

use crate::bare::Answers;
use crate::calls::running_pods;
use crate::client::Connection;
use crate::options::Options;
use crate::rows::{Row, Servers, Side, Unit};
use crate::size::sized;

pub(crate) async fn measure(options: &Options) {
    let count = sized(2000);
    let servers = Servers::start(options);
    let mut all = Row::new(&format!("list of {count} pods"), Unit::Milliseconds);
    let name = format!("list of {} of these pods by label", count.div_ceil(10));
    let mut selected = Row::new(&name, Unit::Milliseconds);
    let mut paths = Vec::new();
    // Of the answers' bodies in either row.
    let mut lengths = [0; 2];
    for (round, turn) in servers.turns() {
        for (side, target) in turn {
            if round == 0 {
                paths.push((side, running_pods((side, target), "list", count).await));
                if side == Side::Ours {
                    let resident = servers.resident_mb();
                    println!("resident with {count} pods: {resident:.0} MB");
                }
            }
            let own = paths.iter().find(|(of, _)| *of == side);
            let (_, pods) = own.expect("the first round has made them");
            let mut connection = Connection::open(target).await;
            let rows = [(&mut all, ""), (&mut selected, "?labelSelector=tenth%3D7")];
            for ((row, query), length) in rows.into_iter().zip(&mut lengths) {
                let path = format!("{pods}{query}");
                if side == Side::Bare {
                    servers.set_answers(Answers::of(200, *length)).await;
                }
                for _ in 0..sized(5) {
                    let started = Instant::now();
                    let (code, body) = connection.request("GET", &path, "", b"").await;
                    let taken = started.elapsed().as_secs_f64() * 1e3;
                    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&body));
                    row.add(side, taken);
                    if side == Side::Ours {
                        *length = body.len();
                    }
                }
            }
        }
    }
    all.print();
    selected.print();
}
