//! `cargo xtask schedulers`: compares the simulated scheduler with kube-scheduler.

mod case;
mod draw;
mod feature;
mod names;
mod nodes;
mod observe;
mod profiles;
mod programs;
mod server;
mod terms;
mod volumes;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use case::Case;
use feature::Features;
use observe::{Observed, Outcome, observe};
use programs::Side;

/// The attempts after which a difference is one: kube-scheduler decides ties at random, and may see a write late.
const ATTEMPTS: usize = 5;

/// Compare the simulated scheduler with kube-scheduler on generated clusters.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kube-scheduler, of the version that this repository embeds.
    #[arg(long, value_name = "FILE")]
    kube_scheduler: PathBuf,
    /// The kubeproof whose scheduler is compared.
    #[arg(long, value_name = "FILE", default_value = "target/debug/kubeproof")]
    kubeproof: PathBuf,
    /// The number of the first case; a case follows from its number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// How many cases are compared.
    #[arg(long, value_name = "N", default_value_t = 100)]
    cases: u64,
    /// The features that may occur, between commas: resources, taints, ports, node-affinity, pod-affinity, spread,
    /// volumes, preemption, profiles.
    #[arg(long, value_name = "NAME,...", default_value = "all")]
    features: Features,
    /// Print the cases in which kube-scheduler scores another node higher than the one that was chosen, and leave its log
    /// in the directory for temporary files.
    #[arg(long)]
    scores: bool,
    /// Print the pod of each case that differs.
    #[arg(long)]
    pods: bool,
}

/// The numbers of a comparison.
#[derive(Default)]
struct Tally {
    cases: usize,
    different: usize,
    nodes: usize,
    feasible: usize,
    placed: usize,
    refused: usize,
    preempting: usize,
    /// Pods that were placed on one of the nodes with the highest score of kube-scheduler.
    best: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = std::env::temp_dir().join(format!("schedulers-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let simulated = Side::simulated(&args.kubeproof, &dir)?;
    let real = Side::real(&args.kubeproof, &args.kube_scheduler, &dir)?;
    for object in case::shared() {
        simulated.server.create(&object)?;
        real.server.create(&object)?;
    }
    let mut tally = Tally::default();
    for number in args.from..args.from + args.cases {
        let case = Case::draw(number, args.features);
        let compared = compare(&case, (&simulated, &real), &mut tally);
        let (differences, note) = compared.with_context(|| format!("case {number}"))?;
        if let Some(note) = note.filter(|_| args.scores) {
            println!("case {number}: {note}");
            if args.pods {
                println!("{}", serde_json::to_string_pretty(&case.pod)?);
            }
        }
        if !differences.is_empty() {
            tally.different += 1;
            println!("case {number} ({:?}):", case.features);
            differences.iter().for_each(|line| println!("  {line}"));
            if args.pods {
                println!("{}", serde_json::to_string_pretty(&case.pod)?);
            }
        }
    }
    drop((simulated, real));
    match args.scores {
        true => println!("the log is in {}", dir.display()),
        false => std::fs::remove_dir_all(&dir)?,
    }
    println!(
        "{} cases with {} nodes ({} feasible): {} pods placed ({} of them on a node with the highest score), \
         {} refused, {} preempting; {} cases differ",
        tally.cases,
        tally.nodes,
        tally.feasible,
        tally.placed,
        tally.best,
        tally.refused,
        tally.preempting,
        tally.different
    );
    Ok(match tally.different {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Runs the case on both sides, again while they differ. Returns the differences, and a note about a node that has not
/// the highest score.
fn compare(
    case: &Case,
    (simulated, real): (&Side, &Side),
    tally: &mut Tally,
) -> anyhow::Result<(Vec<String>, Option<String>)> {
    let mut differences = Vec::new();
    let mut note = None;
    for attempt in 0..ATTEMPTS {
        let (ours, theirs) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| observe(&simulated.server, case, attempt));
            let theirs = observe(&real.server, case, attempt);
            (ours.join().expect("no panic"), theirs)
        });
        let (ours, theirs) = (ours?, theirs?);
        differences = differing(&ours, &theirs);
        if differences.is_empty() || attempt + 1 == ATTEMPTS {
            let scores = real.scores(&format!("pod-{}-{attempt}", case.number))?;
            note = tally.add(&ours, &theirs, &scores);
            break;
        }
    }
    Ok((differences, note))
}

fn differing(ours: &Observed, theirs: &Observed) -> Vec<String> {
    let mut differences = Vec::new();
    let mut note = |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
        differences.push(format!("{what}: simulated {ours}"));
        differences.push(format!("{what}: real      {theirs}"));
    };
    for (node, outcome) in &ours.by_node {
        let real = &theirs.by_node[node];
        // Without the filter NodeAffinity a pod may get another node than the one that it wants.
        let are_placed = matches!((outcome, real), (Outcome::Placed(_), Outcome::Placed(_)));
        if outcome != real && !are_placed {
            note(node, outcome, real);
        }
    }
    match (&ours.pod, &theirs.pod) {
        // The choice among feasible nodes is a matter of scores.
        (Outcome::Placed(_), Outcome::Placed(_)) => {}
        (one, other) if one != other => note("pod", one, other),
        _ => {}
    }
    let preemption =
        |observed: &Observed| format!("{:?} {:?}", observed.nominated, observed.victims);
    if preemption(ours) != preemption(theirs) {
        note("preemption", &preemption(ours), &preemption(theirs));
    }
    differences
}

impl Tally {
    /// Adds a case. Returns a note if the chosen node has not the highest score.
    fn add(
        &mut self,
        ours: &Observed,
        theirs: &Observed,
        scores: &[(String, i64)],
    ) -> Option<String> {
        self.cases += 1;
        self.nodes += ours.by_node.len();
        let placed = |outcome: &&Outcome| matches!(outcome, Outcome::Placed(_));
        self.feasible += theirs.by_node.values().filter(placed).count();
        let node = match &ours.pod {
            Outcome::Placed(node) => node,
            _ if ours.nominated.is_some() => {
                self.preempting += 1;
                return None;
            }
            _ => {
                self.refused += 1;
                return None;
            }
        };
        self.placed += 1;
        let highest = scores.iter().map(|(_, score)| *score).max();
        let chosen = scores.iter().find(|(name, _)| name == node);
        let chosen = chosen.map(|(_, score)| *score);
        if chosen == highest && (highest.is_some() || ours.pod == theirs.pod) {
            self.best += 1;
            return None;
        }
        Some(format!(
            "{node} has the score {chosen:?}, and {} has {highest:?}",
            theirs.pod
        ))
    }
}
