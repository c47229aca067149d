//! Names that differ only in their last part, in one: `web-{0,1}`, `web-{0..2}`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A list or range of last parts, and the end of what goes before.
static LIST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"([a-z0-9.]-)\{([a-z0-9⁰¹²³⁴-⁹]+(?:,[a-z0-9⁰¹²³⁴-⁹]+)+|[0-9]+\.\.[0-9]+)\}")
        .expect("the pattern is a regular expression")
});

/// The least number of names that a range stands for.
const RANGE_MIN: usize = 3;

/// `name` before and after its last hyphen.
pub(super) fn parts(name: &str) -> Option<(&str, &str)> {
    let at = name.rfind('-')?;
    Some((&name[..=at], &name[at + 1..]))
}

/// One word for the names with these last parts after `prefix`.
pub(super) fn joined(prefix: &str, suffixes: &[String]) -> String {
    match suffixes {
        [only] => format!("{prefix}{only}"),
        _ if is_range(suffixes) => {
            format!(
                "{prefix}{{{}..{}}}",
                suffixes[0],
                suffixes[suffixes.len() - 1]
            )
        }
        _ => format!("{prefix}{{{}}}", suffixes.join(",")),
    }
}

fn is_range(suffixes: &[String]) -> bool {
    let next = |pair: &[String]| following(&pair[0]).as_ref() == Some(&pair[1]);
    suffixes.len() >= RANGE_MIN && suffixes.windows(2).all(next)
}

/// The number after `number`, in as many digits.
fn following(number: &str) -> Option<String> {
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let next = number.parse::<u64>().ok().filter(|_| is_number)? + 1;
    let next = format!("{next:0width$}", width = number.len());
    (next.len() == number.len() || !number.starts_with('0')).then_some(next)
}

/// The texts that `text` stands for: all its lists have as many names, and each text has one of each.
pub(super) fn split(text: &str) -> Vec<String> {
    let names = LIST.captures(text).map(|found| suffixes(&found[2]));
    let Some(names) = names else {
        return vec![text.to_owned()];
    };
    let one = |index: usize| {
        let chosen = LIST.replace_all(text, |found: &Captures<'_>| {
            let suffix = suffixes(&found[2]).get(index).cloned();
            format!("{}{}", &found[1], suffix.unwrap_or_default())
        });
        chosen.into_owned()
    };
    (0..names.len()).map(one).collect()
}

fn suffixes(list: &str) -> Vec<String> {
    let Some((first, last)) = list.split_once("..") else {
        return list.split(',').map(str::to_owned).collect();
    };
    let mut all = vec![first.to_owned()];
    while let Some(known) = all.last().filter(|known| *known != last) {
        let Some(next) = following(known) else {
            break;
        };
        all.push(next);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_split_again() {
        for (suffixes, word) in [
            (vec!["0"], "web-0"),
            (vec!["0", "1"], "web-{0,1}"),
            (vec!["0", "1", "2"], "web-{0..2}"),
            (vec!["8", "9", "10"], "web-{8..10}"),
            (vec!["0", "2", "1²"], "web-{0,2,1²}"),
            (vec!["00009", "00010", "00011"], "web-{00009..00011}"),
        ] {
            let suffixes: Vec<String> = suffixes.into_iter().map(str::to_owned).collect();
            assert_eq!(joined("web-", &suffixes), word);
            let names: Vec<String> = suffixes.iter().map(|last| format!("web-{last}")).collect();
            assert_eq!(split(word), names);
        }
    }

    #[test]
    fn the_lists_of_a_text_go_together() {
        assert_eq!(
            split("create Claim data-web-{0,1} Pod web-{0,1}"),
            [
                "create Claim data-web-0 Pod web-0",
                "create Claim data-web-1 Pod web-1"
            ]
        );
        assert_eq!(split("spec {a: 1, b: 2}"), ["spec {a: 1, b: 2}"]);
    }
}
