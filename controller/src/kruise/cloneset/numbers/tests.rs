use super::*;

const NO_LIMIT: i32 = i32::MAX;

/// `replicas,partition,maxUnavailable,maxSurge`, as the API has them.
fn wanted(set: &str, flags: &[&str]) -> Wanted {
    let fields: Vec<IntOrString> = set
        .split(',')
        .map(|field| match field.parse() {
            Ok(number) => IntOrString::Int(number),
            Err(_) => IntOrString::String(field.to_owned()),
        })
        .collect();
    let replicas = resolve(&fields[0], 0, Round::Up).unwrap();
    let surge = resolve(&fields[3], replicas, Round::Up).unwrap();
    let surge = if flags.contains(&"paused") { 0 } else { surge };
    let round = if surge == 0 { Round::Up } else { Round::Down };
    let scale = flags.iter().find_map(|flag| flag.strip_prefix("scale "));
    Wanted {
        replicas,
        partition: partition(Some(&fields[1]), replicas),
        max_surge: surge,
        max_unavailable: resolve(&fields[2], replicas, round).unwrap(),
        scale_max_unavailable: scale.map_or(NO_LIMIT, |limit| limit.parse().unwrap()),
        excludes_preparing_delete: flags.contains(&"exclude"),
        may_roll_back: !flags.contains(&"gate off") && !flags.contains(&"same"),
    }
}

/// `N` and `O` with marks: `!` unavailable, `x` to delete, `p` preparing delete, `u` updating;
/// `O*4` is four of them.
fn pods(text: &str) -> Vec<Counted> {
    let mut pods = Vec::new();
    for word in text.split_whitespace() {
        let (word, times) = word.split_once('*').unwrap_or((word, "1"));
        let standing = if word.contains('p') {
            Standing::PreparingDelete
        } else if word.contains('x') {
            Standing::ToDelete
        } else if word.contains('!') || word.contains('u') {
            Standing::Unavailable
        } else {
            Standing::Available
        };
        let counted = Counted {
            is_new: word.starts_with('N'),
            standing,
        };
        pods.extend(vec![counted; times.parse().unwrap()]);
    }
    pods
}

fn described(numbers: Numbers) -> String {
    let fields = [
        ("up", numbers.up),
        ("lim", numbers.up_limit),
        ("upOld", numbers.up_old),
        ("down", numbers.down),
        ("downOld", numbers.down_old),
        ("del", numbers.delete_ready_limit),
        ("surge", numbers.surge),
        ("surgeOld", numbers.surge_old),
        ("num", numbers.update),
        ("max", numbers.update_max_unavailable),
    ];
    let shown = fields.iter().filter(|(_, number)| *number != 0);
    let words: Vec<String> = shown
        .map(|(name, number)| format!("{name} {number}"))
        .collect();
    words.join(", ")
}

/// Vectors of `cloneset_sync_utils_test.go`.
#[test]
fn the_numbers_are_upstreams() {
    let table: &[(&str, &[&str], &str, &str)] = &[
        ("5,0,1,0", &[], "", "up 5, lim 5"),
        ("5,0,1,0", &[], "Nx N*4", "del 1"),
        ("5,0,1,0", &[], "Nx*2 N*3", "del 1"),
        ("5,0,1,0", &[], "Nx N*3", "up 1, lim 1"),
        ("5,0,1,0", &[], "Nx N*3 N!", ""),
        ("4,0,1,0", &[], "N!x*2 N*3", "del 2"),
        ("5,3,1,0", &[], "O*5", "num 2, max 1"),
        ("5,3,1,0", &[], "N O*4", "num 1, max 1"),
        ("5,3,1,0", &[], "N*2 O*3", ""),
        ("5,4,2,0", &[], "N*4 O", "num -3, max 2"),
        ("5,4,1,0", &["gate off"], "O N*4", ""),
        ("5,0,0,1", &[], "Nx N*4", "up 1, lim 1, surge 1"),
        ("5,0,0,1", &[], "Nx N*4 N!", "surge 1"),
        ("5,0,0,1", &[], "Nx N*5", "del 1, surge 1"),
        ("5,3,1,1", &[], "O*5", "up 1, lim 1, surge 1, num 2, max 1"),
        ("5,3,1,1", &[], "O*5 N!", "surge 1, num 1, max 2"),
        ("5,3,1,1", &[], "O*4 Nu! N!", "down 1, downOld 1"),
        ("5,3,1,1", &[], "O*4 N N!", "down 1, downOld 1, del 1"),
        (
            "5,3,1,1",
            &[],
            "O*4 Ox N!",
            "del 1, surge 1, surgeOld 1, num 1, max 2",
        ),
        (
            "5,3,1,1",
            &[],
            "O*4 N!",
            "up 1, lim 1, surge 1, num 1, max 1",
        ),
        (
            "5,99%,3,2",
            &[],
            "O*5",
            "up 1, lim 1, surge 1, num 1, max 3",
        ),
        ("5,99%,40%,30%", &[], "O*5 N!", "down 1, downOld 1, del 2"),
        ("5,99%,30%,30%", &[], "O*5 N!", "down 1, downOld 1, del 1"),
        ("5,3,1,0", &["same"], "N*5", ""),
        ("5,1,2,0", &["same"], "O*2 N*2", "up 1, lim 1, num 1, max 1"),
        (
            "5,1,1,0",
            &["same"],
            "O*3 N*3",
            "down 1, downOld 2, del 2, num 1, max 2",
        ),
        ("5,0,1,0", &["scale 2"], "", "up 5, lim 2"),
        ("6,0,1,0", &["scale 2"], "N*2 N!", "up 3, lim 1"),
        ("6,0,1,0", &["scale 2"], "N N!*2", "up 3"),
        ("3,0,1,0", &[], "N*2 Npx", ""),
        ("3,0,1,0", &["exclude"], "N*2 Npx", "up 1, lim 1"),
        ("3,0,1,0", &["exclude"], "N*2 Npx N!", ""),
        ("3,0,1,0", &["exclude"], "N*3 N!", "down 1, del 1"),
        ("5,0,0,3", &["paused"], "O*3", "up 2, lim 2, num 3, max -2"),
        (
            "3,0,0,3",
            &["paused"],
            "O*5",
            "down 2, downOld 5, del 2, num 3, max 2",
        ),
        ("5,2,0,3", &["paused"], "O*5 N!*3", "down 3, downOld 3"),
    ];
    for (set, flags, text, expected) in table {
        let numbers = calculate(&wanted(set, flags), pods(text));
        assert_eq!(described(numbers), *expected, "{set} {flags:?} {text}");
    }
}

#[test]
fn a_partition_that_is_not_the_whole_lets_one_pod_through() {
    let share = |text: &str| IntOrString::String(text.to_owned());
    let table = [
        (IntOrString::Int(0), 0),
        (IntOrString::Int(2), 2),
        (share("50%"), 2),
        (share("60%"), 3),
        (share("99%"), 3),
        (share("100%"), 4),
        (IntOrString::Int(9), 4),
        (IntOrString::Int(-1), 0),
    ];
    for (value, kept) in table {
        assert_eq!(partition(Some(&value), 4), kept, "{value:?}");
    }
    assert_eq!(partition(None, 4), 0);
    assert_eq!(
        partition(Some(&share("99%")), 1),
        1,
        "one pod is all there is"
    );
}
