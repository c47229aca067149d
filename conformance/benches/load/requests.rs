//! Requests for single objects.

use crate::bare::Answers;
use crate::calls::{Call, Clients, create_namespace};
use crate::objects::{config_map, pod};
use crate::options::Options;
use crate::rows::{Row, Servers, Side, Unit};
use crate::size::sized;

/// Rows and the servers' processor time for each of their requests.
struct Timed {
    row: Row,
    processor_us: Vec<f64>,
    bare_us: Vec<f64>,
    /// The bare server's answers; known once this build's server has answered.
    answers: Option<Answers>,
}

impl Timed {
    fn new(name: &str) -> Self {
        Self {
            row: Row::new(name, Unit::PerSecond),
            processor_us: Vec::new(),
            bare_us: Vec::new(),
            answers: None,
        }
    }

    fn print(mut self) {
        self.row.print();
        let (ours, bare) = (median(&mut self.processor_us), median(&mut self.bare_us));
        println!(
            "    {ours:.1} µs of the server's processor time each, {bare:.1} of the bare one's"
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Makes the requests of a row.
type Make<'a> = &'a dyn Fn(usize) -> Call;

pub(crate) async fn measure(options: &Options) {
    // A kube-apiserver takes its time.
    let fewer = if options.against.is_some() { 5 } else { 1 };
    let (written, read) = (sized(10_000 / fewer), sized(50_000 / fewer));
    let servers = Servers::start(options);
    let mut small = Timed::new("creates of ConfigMaps");
    let mut creates = Timed::new("creates of pods");
    let mut gets = Timed::new("gets of pods");
    let mut patches = Timed::new("status patches of pods");
    let mut rounds = 0;
    for (round, turn) in servers.turns() {
        rounds = round + 1;
        for (side, target) in turn {
            let namespace = create_namespace((side, target), "load").await;
            let mut clients = Clients::open(target).await;
            let maps = format!("{namespace}/configmaps");
            let pods = format!("{namespace}/pods");
            let rows: [(&mut Timed, usize, Make<'_>); 4] = [
                (&mut small, written, &|index| {
                    Call::create(&maps, &config_map(index))
                }),
                (&mut creates, written, &|index| {
                    Call::create(&pods, &pod(index))
                }),
                (&mut gets, read, &|index| {
                    Call::get(format!("{pods}/web-{}", index * 7919 % written))
                }),
                (&mut patches, written, &|index| {
                    Call::status_patch(&pods, index, round)
                }),
            ];
            for (timed, count, call) in rows {
                if let (Side::Bare, Some(answers)) = (side, timed.answers) {
                    servers.set_answers(answers).await;
                }
                let before = servers.processor_us(side);
                let took = clients.send(count, call).await;
                timed.row.add(side, took.rate());
                let after = servers.processor_us(side);
                let taken = before.zip(after).map(|(before, after)| after - before);
                let each = taken.map(|taken| taken / count as f64);
                match side {
                    Side::Ours => {
                        timed.processor_us.extend(each);
                        timed.answers = Some(call(0).answers(took.body));
                    }
                    Side::Theirs => {}
                    Side::Bare => timed.bare_us.extend(each),
                }
            }
        }
    }
    for timed in [small, creates, gets, patches] {
        timed.print();
    }
    let stored = rounds * written;
    let resident = servers.resident_mb();
    println!("resident with {stored} pods and {stored} ConfigMaps: {resident:.0} MB");
}
