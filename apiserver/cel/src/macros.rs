//! Calls that become loops and presence tests when they are read.

use std::sync::Arc;

use super::{
    ast::{ACCUMULATOR, Call, Comprehension, Element, Expr, ExprKind, UNUSED},
    builder::Builder,
    value::Value,
};

/// The name upstream once gave the accumulator; still no name for a variable.
const OLD_ACCUMULATOR: &str = "__result__";

/// The variable that holds the list that `sortBy` sorts.
const SORT_INPUT: &str = "@__sortBy_input__";

/// An issue with an argument, at a place.
type Fault = (usize, String);

/// Returns the expansion of a macro call; other calls are returned unchanged.
pub(super) fn expand(builder: &mut Builder, offset: usize, call: Call) -> Expr {
    let mut maker = Maker { builder, offset };
    match maker.expand(call) {
        Ok(expr) => expr,
        Err((at, message)) => {
            builder.issues.report(at, message);
            builder.node(offset, ExprKind::Literal(Value::Null))
        }
    }
}

struct Maker<'b> {
    builder: &'b mut Builder,
    offset: usize,
}

impl Maker<'_> {
    fn expand(&mut self, mut call: Call) -> Result<Expr, Fault> {
        let function = Arc::clone(&call.function);
        let count = call.args.len();
        if call.target.is_none() {
            return match (&*function, count) {
                ("has", 1) => self.has(call.args.remove(0)),
                _ => Ok(self.node(ExprKind::Call(call))),
            };
        }
        match (&*function, count) {
            ("all" | "exists" | "exists_one" | "existsOne", 2) => {
                let (target, [variable, predicate]) = parts(call);
                let name = simple_name(&variable, "argument must be a simple name")?;
                Ok(self.quantifier(&function, target, (name, None), predicate))
            }
            ("all" | "exists" | "exists_one" | "existsOne", 3) => {
                let (target, [key, value, predicate]) = parts(call);
                let (key, value) = two_names(&key, &value)?;
                Ok(self.quantifier(&function, target, (key, Some(value)), predicate))
            }
            ("map", 2) => {
                let (target, [variable, transform]) = parts(call);
                let name = simple_name(&variable, "argument is not an identifier")?;
                Ok(self.collect_list(target, (name, None), None, transform))
            }
            ("map", 3) => {
                let (target, [variable, filter, transform]) = parts(call);
                let name = simple_name(&variable, "argument is not an identifier")?;
                Ok(self.collect_list(target, (name, None), Some(filter), transform))
            }
            ("filter", 2) => {
                let (target, [variable, filter]) = parts(call);
                let name = simple_name(&variable, "argument is not an identifier")?;
                Ok(self.collect_list(target, (name, None), Some(filter), variable))
            }
            ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
                self.transform(&function, call)
            }
            ("optMap" | "optFlatMap", 2) => self.optional(&function, call),
            ("sortBy", 2) => self.sort_by(call),
            ("bind", 3) if self.builder.has_bindings && is_named(&call, "cel") => {
                let (_, [variable, value, result]) = parts(call);
                let ExprKind::Ident(name) = &variable.kind else {
                    let message = "cel.bind() variable names must be simple identifiers";
                    return Err((variable.offset, message.to_owned()));
                };
                Ok(self.bind(name, value, result))
            }
            _ => Ok(self.node(ExprKind::Call(call))),
        }
    }

    fn node(&mut self, kind: ExprKind) -> Expr {
        self.builder.node(self.offset, kind)
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn literal(&mut self, value: Value) -> Expr {
        self.node(ExprKind::Literal(value))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.builder.call(self.offset, function, args)
    }

    fn method(&mut self, target: Expr, function: &str, args: Vec<Expr>) -> Expr {
        let target = Some(Box::new(target));
        self.node(ExprKind::Call(Call {
            function: function.into(),
            target,
            args,
        }))
    }

    fn has(&mut self, argument: Expr) -> Result<Expr, Fault> {
        match argument.kind {
            ExprKind::Select {
                operand,
                field,
                test_only: false,
            } => Ok(self.node(ExprKind::Select {
                operand,
                field,
                test_only: true,
            })),
            _ => Err((
                argument.offset,
                "invalid argument to has() macro".to_owned(),
            )),
        }
    }

    fn quantifier(
        &mut self,
        function: &str,
        range: Expr,
        variables: (Arc<str>, Option<Arc<str>>),
        predicate: Expr,
    ) -> Expr {
        let accumulator = self.accumulator();
        let (init, condition, step, result);
        match function {
            "all" => {
                init = self.literal(Value::Bool(true));
                condition = self.call("@not_strictly_false", vec![accumulator]);
                let so_far = self.accumulator();
                step = self.call("_&&_", vec![so_far, predicate]);
                result = self.accumulator();
            }
            "exists" => {
                init = self.literal(Value::Bool(false));
                let not = self.call("!_", vec![accumulator]);
                condition = self.call("@not_strictly_false", vec![not]);
                let so_far = self.accumulator();
                step = self.call("_||_", vec![so_far, predicate]);
                result = self.accumulator();
            }
            _ => {
                init = self.literal(Value::Int(0));
                condition = self.literal(Value::Bool(true));
                let one = self.literal(Value::Int(1));
                let more = self.call("_+_", vec![accumulator, one]);
                let same = self.accumulator();
                step = self.call("_?_:_", vec![predicate, more, same]);
                let count = self.accumulator();
                let one = self.literal(Value::Int(1));
                result = self.call("_==_", vec![count, one]);
            }
        }
        self.comprehension(range, variables, init, condition, step, result)
    }

    fn comprehension(
        &mut self,
        range: Expr,
        (variable, value_variable): (Arc<str>, Option<Arc<str>>),
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        let accumulator = ACCUMULATOR.into();
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable,
            value_variable,
            accumulator,
            init,
            condition,
            step,
            result,
        })))
    }

    fn collect_list(
        &mut self,
        range: Expr,
        variables: (Arc<str>, Option<Arc<str>>),
        filter: Option<Expr>,
        transform: Expr,
    ) -> Expr {
        let so_far = self.accumulator();
        let item = self.node(ExprKind::List(vec![Element {
            value: transform,
            optional: false,
        }]));
        let step = self.call("_+_", vec![so_far, item]);
        let init = self.node(ExprKind::List(Vec::new()));
        self.collect(range, variables, filter, init, step)
    }

    /// A loop that gathers by `step` what passes `filter`.
    fn collect(
        &mut self,
        range: Expr,
        variables: (Arc<str>, Option<Arc<str>>),
        filter: Option<Expr>,
        init: Expr,
        mut step: Expr,
    ) -> Expr {
        if let Some(filter) = filter {
            let same = self.accumulator();
            step = self.call("_?_:_", vec![filter, step, same]);
        }
        let condition = self.literal(Value::Bool(true));
        let result = self.accumulator();
        self.comprehension(range, variables, init, condition, step, result)
    }

    fn transform(&mut self, function: &str, call: Call) -> Result<Expr, Fault> {
        let Call {
            target, mut args, ..
        } = call;
        let target = *target.expect("a method has a target");
        let transform = args.pop().expect("counted");
        let filter = (args.len() == 3).then(|| args.pop().expect("counted"));
        let (key, value) = two_names(&args[0], &args[1])?;
        let variables = (Arc::clone(&key), Some(value));
        if function == "transformList" {
            return Ok(self.collect_list(target, variables, filter, transform));
        }
        let mut inserted = vec![self.accumulator()];
        if function == "transformMap" {
            inserted.push(self.ident(&key));
        }
        inserted.push(transform);
        let step = self.call("cel.@mapInsert", inserted);
        let init = self.node(ExprKind::Map(Vec::new()));
        Ok(self.collect(target, variables, filter, init, step))
    }

    /// A name for `value` within `result`.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> Expr {
        let range = self.node(ExprKind::List(Vec::new()));
        let condition = self.literal(Value::Bool(false));
        let step = self.ident(name);
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            value_variable: None,
            accumulator: name.into(),
            init: value,
            condition,
            step,
            result,
        })))
    }

    fn optional(&mut self, function: &str, call: Call) -> Result<Expr, Fault> {
        let (target, [variable, transform]) = parts(call);
        let ExprKind::Ident(name) = &variable.kind else {
            let message = format!("{function}() variable name must be a simple identifier");
            return Err((variable.offset, message));
        };
        let copy = self.builder.copy(&target);
        let present = self.method(target, "hasValue", Vec::new());
        let value = self.method(copy, "value", Vec::new());
        let mut mapped = self.bind(name, value, transform);
        if function == "optMap" {
            mapped = self.call("optional.of", vec![mapped]);
        }
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![present, mapped, none]))
    }

    fn sort_by(&mut self, call: Call) -> Result<Expr, Fault> {
        let (target, [variable, key]) = parts(call);
        if matches!(
            target.kind,
            ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Message { .. }
        ) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call \
                           or select expression";
            return Err((target.offset, message.to_owned()));
        }
        let name = simple_name(&variable, "argument is not an identifier")?;
        let input = self.ident(SORT_INPUT);
        let keys = self.collect_list(input, (name, None), None, key);
        let input = self.ident(SORT_INPUT);
        let sorted = self.method(input, "@sortByAssociatedKeys", vec![keys]);
        Ok(self.bind(SORT_INPUT, target, sorted))
    }
}

/// Whether the call is of a function in the namespace `name`.
fn is_named(call: &Call, name: &str) -> bool {
    let target = call.target.as_deref().map(|target| &target.kind);
    matches!(target, Some(ExprKind::Ident(own)) if &**own == name)
}

/// The target and the arguments of a method whose arguments are counted.
fn parts<const COUNT: usize>(call: Call) -> (Expr, [Expr; COUNT]) {
    let target = *call.target.expect("a method has a target");
    let args = <[Expr; COUNT]>::try_from(call.args).unwrap_or_else(|_| unreachable!("counted"));
    (target, args)
}

fn simple_name(argument: &Expr, fault: &str) -> Result<Arc<str>, Fault> {
    match &argument.kind {
        ExprKind::Ident(name) if [ACCUMULATOR, OLD_ACCUMULATOR].contains(&&**name) => Err((
            argument.offset,
            "iteration variable overwrites accumulator variable".to_owned(),
        )),
        ExprKind::Ident(name) => Ok(Arc::clone(name)),
        _ => Err((argument.offset, fault.to_owned())),
    }
}

fn two_names(first: &Expr, second: &Expr) -> Result<(Arc<str>, Arc<str>), Fault> {
    let key = simple_name(first, "argument must be a simple name")?;
    let value = simple_name(second, "argument must be a simple name")?;
    if key == value {
        return Err((second.offset, format!("duplicate variable name: {key}")));
    }
    Ok((key, value))
}
