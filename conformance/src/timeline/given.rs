//! The head of a timeline: the state that a run begins with.

/// The length up to which parts share a line.
const WIDTH: usize = 140;

/// Returns the number of nodes in words.
pub(crate) fn nodes(number: usize) -> String {
    match number {
        0 => "no nodes".to_owned(),
        1 => "1 node".to_owned(),
        number => format!("{number} nodes"),
    }
}

/// Returns in words whether the metrics APIs are served, unless it follows from the number of nodes.
pub(crate) fn metrics(served: Option<bool>, nodes: usize) -> Option<String> {
    let words = match served? {
        served if served == (nodes > 0) => return None,
        true => "the metrics APIs",
        false => "no metrics APIs",
    };
    Some(words.to_owned())
}

/// Returns the parts of the given state in lines, as many in each as fit.
pub(crate) fn filled(parts: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + part.chars().count() <= WIDTH => {
                line.push_str("; ");
                line.push_str(part);
            }
            _ => lines.push(format!("#        {part}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_told_where_nodes_do_not_tell() {
        assert_eq!(metrics(None, 3), None);
        assert_eq!(metrics(Some(true), 3), None);
        assert_eq!(metrics(Some(false), 0), None);
        assert_eq!(metrics(Some(false), 3).as_deref(), Some("no metrics APIs"));
        assert_eq!(metrics(Some(true), 0).as_deref(), Some("the metrics APIs"));
    }

    #[test]
    fn parts_share_a_line_while_they_fit() {
        let long = "x".repeat(WIDTH);
        let parts = ["configmap a", "configmap b", long.as_str(), "configmap c"];
        let lines = filled(&parts.map(str::to_owned));
        let expected = [
            "#        configmap a; configmap b".to_owned(),
            format!("#        {long}"),
            "#        configmap c".to_owned(),
        ];
        assert_eq!(lines, expected);
    }
}
