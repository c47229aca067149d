//! Arithmetic expansion, `$((…))`: integers, names, brackets and the usual operators.

/// The operators by precedence, loosest first; longer operators come before their prefixes.
const LEVELS: [&[&str]; 6] = [
    &["||"],
    &["&&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];
/// The maximum nesting of brackets and signs; deeper expressions count as 0.
const DEPTH_MAX: usize = 64;

/// Returns the value of an expression, wrapping at 64 bits. Text that can't be parsed counts as 0,
/// as does an unset name.
pub(super) fn evaluate(text: &str, variable: &dyn Fn(&str) -> String) -> i64 {
    let mut expression = Expression {
        rest: text.trim_start(),
        variable,
        depth: 0,
    };
    expression.level(0)
}

struct Expression<'a> {
    rest: &'a str,
    variable: &'a dyn Fn(&str) -> String,
    depth: usize,
}

impl Expression<'_> {
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn level(&mut self, level: usize) -> i64 {
        let Some(operators) = LEVELS.get(level) else {
            return self.operand();
        };
        let mut value = self.level(level + 1);
        while let Some(operator) = operators.iter().find(|operator| self.eat(operator)) {
            let right = self.level(level + 1);
            value = match *operator {
                "||" => i64::from(value != 0 || right != 0),
                "&&" => i64::from(value != 0 && right != 0),
                "==" => i64::from(value == right),
                "!=" => i64::from(value != right),
                "<=" => i64::from(value <= right),
                ">=" => i64::from(value >= right),
                "<" => i64::from(value < right),
                ">" => i64::from(value > right),
                "+" => value.wrapping_add(right),
                "-" => value.wrapping_sub(right),
                "*" => value.wrapping_mul(right),
                "/" => value.checked_div(right).unwrap_or(0),
                _ => value.checked_rem(right).unwrap_or(0),
            };
        }
        value
    }

    fn operand(&mut self) -> i64 {
        if self.depth >= DEPTH_MAX {
            return 0;
        }
        self.depth += 1;
        let value = if self.eat("(") {
            let value = self.level(0);
            self.eat(")");
            value
        } else if self.eat("-") {
            self.operand().wrapping_neg()
        } else {
            self.atom()
        };
        self.depth -= 1;
        value
    }

    fn atom(&mut self) -> i64 {
        self.eat("$");
        let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        match atom.parse() {
            Ok(number) => number,
            Err(_) => (self.variable)(atom).trim().parse().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_c() {
        let value = |text| evaluate(text, &|name| if name == "i" { "4" } else { "" }.to_owned());
        assert_eq!(value("1 + 2 * 3"), 7);
        assert_eq!(value("(1 + 2) * -$i"), -12);
        assert_eq!(value("i%3 == 1 && unset == 0"), 1);
        assert_eq!(value("1 / 0"), 0);
        assert_eq!(value(&"(".repeat(100_000)), 0);
    }
}
