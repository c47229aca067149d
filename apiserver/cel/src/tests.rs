//! Expressions with their values, issues, failures and costs, which are facts of cel-go and of the
//! Kubernetes libraries.

use std::collections::BTreeMap;

use kubeproof_machinery::json::{Value as Json, json};

use super::{
    rules::{CompiledRule, compile_rules},
    schema::{decl_type, to_value, with_type_and_object_meta},
    value::Value,
};
use kubeproof_machinery::schema::structural::Structural;

/// The result of a rule of whole objects, with its costs.
struct Found {
    value: Result<Value, String>,
    cost: u64,
    cost_max: u64,
}

fn find(schema: &Json, rule: &str, object: &Json) -> Found {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let schema = Structural::parse(&schema);
    let decl = decl_type(&schema, true).expect("the schema has a type");
    let mut compiled = compile_rules(&schema.validations, &decl);
    let CompiledRule {
        error,
        program,
        cost_max,
        ..
    } = compiled.remove(0);
    let (value, cost) = match (error, program) {
        (Some(error), _) => (Err(error), 0),
        (None, program) => {
            let this = to_value(object, &with_type_and_object_meta(&schema));
            let (value, cost) = program
                .expect("the rule compiles")
                .evaluate(&BTreeMap::from([("self", this)]));
            (value.map_err(|error| error.message().to_owned()), cost)
        }
    };
    Found {
        value,
        cost,
        cost_max,
    }
}

fn schema() -> Json {
    let string = json!({"type": "string"});
    let list = |items: Json| json!({"type": "array", "items": items});
    json!({"type": "object", "properties": {
        "s": string, "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
        "l": list(string.clone()), "li": list(json!({"type": "integer"})),
        "set": {"type": "array", "items": string, "x-kubernetes-list-type": "set"},
        "m": {"type": "object", "additionalProperties": string},
        "o": {"type": "object", "properties": {"k": string, "x-y": string, "namespace": string}},
        "ios": {"x-kubernetes-int-or-string": true},
        "when": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
        "short": {"type": "string", "maxLength": 10},
    }})
}

fn object() -> Json {
    json!({
        "s": "Rook takes 👑", "i": 5, "n": 2.5, "b": true, "l": ["b", "a"], "li": [3, 1, 2],
        "set": ["x", "y"], "m": {"k": "v"}, "o": {"k": "v", "x-y": "z", "namespace": "d"},
        "ios": "10%", "when": "2011-08-18T19:03:37.01+01:00", "span": "1h2m3s", "short": "abc",
    })
}

#[test]
fn rules_that_hold() {
    let rules = include_str!("tests/hold.txt")
        .lines()
        .filter(|line| !line.is_empty());
    let mut count = 0;
    for rule in rules {
        let found = find(&schema(), rule, &object());
        assert_eq!(found.value, Ok(Value::Bool(true)), "{rule}");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn rules_with_issues() {
    let table = [
        (
            "self.zz > 0",
            "1:5: undefined field 'zz'\n | self.zz > 0\n | ....^",
        ),
        (
            "self.i + 'a' == 1",
            "1:8: found no matching overload for '_+_' applied to '(int, string)'\n | self.i + 'a' == 1\n | .......^",
        ),
        (
            "foo == 1",
            "1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^",
        ),
        (
            "foo(1)",
            "1:4: undeclared reference to 'foo' (in container '')\n | foo(1)\n | ...^",
        ),
        (
            "self.s.startsWith(1)",
            "1:18: found no matching overload for 'startsWith' applied to 'string.(int)'\n | self.s.startsWith(1)\n | .................^",
        ),
        (
            "self.i ? true : false",
            "1:8: found no matching overload for '_?_:_' applied to '(int, bool, bool)'\n | self.i ? true : false\n | .......^",
        ),
        (
            "self.i && self.b",
            "1:5: expected type 'bool' but found 'int'\n | self.i && self.b\n | ....^",
        ),
        (
            "self.s.all(c, c == 'a')",
            "1:5: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)\n | self.s.all(c, c == 'a')\n | ....^",
        ),
        (
            "self.l.all(1, true)",
            "1:12: argument must be a simple name\n | self.l.all(1, true)\n | ...........^",
        ),
        (
            "has(self)",
            "1:5: invalid argument to has() macro\n | has(self)\n | ....^",
        ),
        (
            "[1, 'a'].size() == 2",
            "1:5: expected type 'int' but found 'string'\n | [1, 'a'].size() == 2\n | ....^",
        ),
        (
            "self.s.matches('[')",
            "1:16: invalid matches argument\n | self.s.matches('[')\n | ...............^",
        ),
        (
            "duration('1x') == self.span",
            "1:10: invalid duration argument\n | duration('1x') == self.span\n | .........^",
        ),
        (
            "self.b &",
            "1:8: Syntax error: token recognition error at: '&'\n | self.b &\n | .......^",
        ),
        (
            "(self.b",
            "1:8: Syntax error: missing ')' at '<EOF>'\n | (self.b\n | .......^",
        ),
        (
            "self.b)",
            "1:7: Syntax error: extraneous input ')' expecting <EOF>\n | self.b)\n | ......^",
        ),
        (
            "self.",
            "1:6: Syntax error: no viable alternative at input '.'\n | self.\n | .....^",
        ),
        ("if", "1:1: reserved identifier: if\n | if\n | ^"),
        (
            "self.i == 99999999999999999999",
            "1:11: invalid int literal\n | self.i == 99999999999999999999\n | ..........^",
        ),
        (
            "'💣' == self.i",
            "1:5: found no matching overload for '_==_' applied to '(string, int)'\n | '💣' == self.i\n | .．..^",
        ),
    ];
    for (rule, issue) in table {
        let found = find(&schema(), rule, &object());
        let want = format!("compilation failed: ERROR: <input>:{issue}");
        assert_eq!(found.value, Err(want), "{rule}");
    }
    let found = find(&schema(), "self.i +", &object()).value.unwrap_err();
    let want = "1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', \
                '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
                IDENTIFIER}\n | self.i +\n | ........^";
    assert!(found.ends_with(want), "{found}");
}

#[test]
fn literal_formats_are_checked_against_their_literal_arguments() {
    for (rule, at, issue) in [
        (
            "'%d'.format(['a']) == ''",
            14,
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([[ip('::1')]]) == ''",
            17,
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given net.IP",
        ),
        (
            "'%z'.format([1]) == ''",
            12,
            "could not parse formatting clause: unrecognized formatting clause \"z\"",
        ),
        (
            "'%.f'.format([1.0]) == ''",
            13,
            "could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax",
        ),
        ("'%s %s'.format([1]) == ''", 15, "index 1 out of range"),
        (
            "'%s'.format([1, 2]) == ''",
            12,
            "too many arguments supplied to string.format (expected 1, got 2)",
        ),
        ("'%'.format([1]) == ''", 11, "unexpected end of string"),
    ] {
        let found = find(&schema(), rule, &object()).value.unwrap_err();
        let want = format!("compilation failed: ERROR: <input>:1:{at}: {issue}\n");
        assert!(found.starts_with(&want), "{found}");
    }
    for rule in [
        "'%s %d %x %b %.1f'.format([[1, 'a'], 1u, b'a', true, 1.25]) == '[1, \"a\"] 1 61 1 1.2'",
        "'%f %e'.format(['Infinity', 'NaN']) == '\u{221e} NaN'",
        "'%d'.format([dyn(1)]) == '1'",
        "'%.2000f'.format([0.5]).size() == 2002",
        "'%.999999999f'.format([1.0]) != ''",
    ] {
        let found = find(&schema(), rule, &object()).value;
        assert!(matches!(found, Ok(Value::Bool(true))), "{rule}: {found:?}");
    }
}

#[test]
fn rules_of_other_types_or_with_faulty_constants() {
    let table = [
        ("self.i", "cel expression must evaluate to a bool"),
        ("self.ios", "cel expression must evaluate to a bool"),
        (
            "int('a') == 1",
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
    ];
    for (rule, want) in table {
        assert_eq!(
            find(&schema(), rule, &object()).value,
            Err(want.to_owned()),
            "{rule}"
        );
    }
}

#[test]
fn rules_that_fail() {
    let table = [
        ("self.i / (self.i - 5) == 1", "division by zero"),
        ("self.i % (self.i - 5) == 1", "modulus by zero"),
        ("9223372036854775807 + self.i == 1", "integer overflow"),
        ("self.m.z == ''", "no such key: z"),
        ("self.l[2] == ''", "index out of bounds: 2"),
        ("self.ios > 5", "no such overload"),
        ("self.ios + 5 > 5", "no such overload"),
        ("[].max() == 1", "max called on empty list"),
        (
            "ip('1.2.3') == ip('1.2.3.4')",
            "IP Address \"1.2.3\" parse error during conversion from string: ParseAddr(\"1.2.3\"): IPv4 address too short",
        ),
        (
            "quantity('1e') == quantity('1')",
            "unable to parse quantity's suffix",
        ),
        (
            "semver('1') == semver('1.0.0')",
            "No Major.Minor.Patch elements found",
        ),
        (
            "optional.none().value() == 1",
            "optional.none() dereference",
        ),
        (
            "timestamp(self.i + 253402300800) == self.when",
            "timestamp overflow",
        ),
        ("uint(self.i - 6) == 1u", "unsigned integer overflow"),
        (
            "int(self.s) == 1",
            "type conversion error from 'string' to 'int'",
        ),
        ("self.s.substring(20) == ''", "index out of range: 20"),
        ("self.l.all(x, self.m[x] == '')", "no such key: b"),
    ];
    for (rule, want) in table {
        assert_eq!(
            find(&schema(), rule, &object()).value,
            Err(want.to_owned()),
            "{rule}"
        );
    }
}

#[test]
fn errors_are_absorbed_by_what_decides_without_them() {
    for rule in [
        "self.m.z == '' || true",
        "true || self.m.z == ''",
        "self.l.exists(x, self.m[x] == '' || x == 'a')",
    ] {
        assert_eq!(
            find(&schema(), rule, &object()).value,
            Ok(Value::Bool(true)),
            "{rule}"
        );
    }
    let found = find(&schema(), "self.m.z == '' && false", &object());
    assert_eq!(found.value, Ok(Value::Bool(false)));
}

/// `rule  cost  estimate`, of rules about two strings.
#[test]
fn rules_cost_what_they_cost_upstream() {
    let string = || json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"val1": string(), "val2": string()}});
    let object = json!({"val1": "Rook takes 👑", "val2": "Rook takes 👑"});
    let table = [
        ("self.val1.startsWith('Rook')", 4, 3),
        ("!self.val1.startsWith('knight')", 5, 4),
        ("self.val1.matches('^[^0-9]*$')", 8, 943_721),
        ("!self.val1.matches('^[0-9]*$')", 7, 629_149),
        ("type(self.val1) == string", 4, 4),
        ("size(self.val1) == 12", 4, 4),
        ("self.val1.charAt(3) == 'k'", 4, 4),
        ("self.val1.indexOf('o') == 1", 4, 314_576),
        ("self.val1.replace(' ', 'x') == 'Rookxtakesx👑'", 7, 629_150),
        (
            "self.val1.split(' ') == ['Rook', 'takes', '👑']",
            6,
            629_159,
        ),
        ("self.val1.substring(5) == 'takes 👑'", 5, 314_576),
        ("self.val1.substring(4, 10).trim() == 'takes'", 6, 629_149),
        ("self.val1.upperAscii() == 'ROOK TAKES 👑'", 6, 314_577),
    ];
    for (rule, cost, estimate) in table {
        let found = find(&schema, rule, &object);
        assert_eq!((found.cost, found.cost_max), (cost, estimate), "{rule}");
        assert_eq!(found.value, Ok(Value::Bool(true)), "{rule}");
    }
}

#[test]
fn hostile_rules_end() {
    let many = vec!["abc"; 5_000];
    let object = json!({"s": "x".repeat(100_000), "l": many});
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}true{}", open.repeat(depth), close.repeat(depth))
    };
    let too_expensive = [
        "self.l.all(a, self.l.all(b, self.l.all(c, a == b)))",
        "self.l.map(a, self.s + self.s).size() == 1",
        "self.s.replace('', self.s).size() == 1",
        "lists.range(9000000000).size() == 1",
        "self.l.join(self.s).size() == 1",
        "self.s.split('').distinct().size() == 1",
    ];
    for rule in too_expensive {
        let found = find(&schema(), rule, &object);
        let want = "operation cancelled: actual cost limit exceeded".to_owned();
        assert_eq!(found.value, Err(want), "{rule}");
    }
    for rule in [
        nested("(", ")", 240),
        nested("[1].all(x, ", ")", 200),
        nested("!", "", 4_000),
    ] {
        assert_eq!(find(&schema(), &rule, &object).value, Ok(Value::Bool(true)));
    }
    let deep = [
        nested("(", ")", 300),
        vec!["1"; 300].join("+"),
        nested("true ? true : ", "", 300),
    ];
    for rule in deep {
        let want =
            "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
        assert_eq!(find(&schema(), &rule, &object).value, Err(want.to_owned()));
    }
    let doubled = format!("[1]{}.size() == 1", ".map(a, {a: a})".repeat(40));
    assert!(find(&schema(), &doubled, &object).value.is_err());
    let copied = format!(
        "optional.of(1){}.hasValue()",
        ".optMap(x, x + 1)".repeat(30)
    );
    assert!(find(&schema(), &copied, &object).value.is_err());
}
