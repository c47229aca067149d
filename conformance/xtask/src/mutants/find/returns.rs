//! Functions that return at once, with a simple value of their type.

use syn::{Block, GenericArgument, PathArguments, ReturnType, Signature, Stmt, Type, TypePath};

use super::{Finder, one_line, range};
use crate::mutants::mutant::Splice;

/// The values of a type, as Rust. What does not compile is found out later.
fn values(of: &Type) -> Vec<String> {
    match of {
        Type::Never(_) | Type::ImplTrait(_) => Vec::new(),
        Type::Paren(inner) => values(&inner.elem),
        Type::Reference(reference) => {
            let is_str = matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str"));
            if is_str && reference.mutability.is_none() {
                return vec!["\"\"".to_owned(), "\"xyzzy\"".to_owned()];
            }
            let inner = values(&reference.elem);
            let leaked = inner.iter();
            leaked
                .map(|value| format!("Box::leak(Box::new({value}))"))
                .collect()
        }
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".to_owned()],
        Type::Path(path) => values_of_path(path),
        _ => vec!["Default::default()".to_owned()],
    }
}

fn values_of_path(path: &TypePath) -> Vec<String> {
    let Some(last) = path.path.segments.last() else {
        return Vec::new();
    };
    let arguments: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            let types = arguments.args.iter().filter_map(|argument| match argument {
                GenericArgument::Type(one) => Some(one),
                _ => None,
            });
            types.collect()
        }
        _ => Vec::new(),
    };
    let first = arguments.first().map(|first| values(first));
    let each = |form: &dyn Fn(&str) -> String| -> Vec<String> {
        let first = first.iter().flatten();
        first.map(|value| form(value)).collect()
    };
    match last.ident.to_string().as_str() {
        "bool" => owned(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => owned(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => owned(&["0", "1", "-1"]),
        "f32" | "f64" => owned(&["0.0", "1.0", "-1.0"]),
        "String" => owned(&["String::new()", "\"xyzzy\".into()"]),
        "Option" => {
            let mut all = owned(&["None"]);
            all.extend(each(&|value| format!("Some({value})")));
            all
        }
        "Result" if arguments.is_empty() => owned(&["Ok(())"]),
        "Result" => each(&|value| format!("Ok({value})")),
        "Vec" => {
            let mut all = owned(&["vec![]"]);
            all.extend(each(&|value| format!("vec![{value}]")));
            all
        }
        "Box" | "Arc" | "Rc" => {
            let name = &last.ident;
            each(&|value| format!("{name}::new({value})"))
        }
        _ => owned(&["Default::default()"]),
    }
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// Whether a function returns this value anyway.
fn is_same(body: &str, value: &str) -> bool {
    let others: &[&str] = match value {
        "vec![]" => &["Vec::new()"],
        "Default::default()" => &["Self::default()", "BTreeMap::new()", "BTreeSet::new()"],
        "Ok(Default::default())" => &["Ok(None)", "Ok(())"],
        _ => &[],
    };
    body == value || others.contains(&body)
}

impl Finder<'_> {
    pub(super) fn add_returns(&mut self, signature: &Signature, block: &Block) {
        let body = range(block);
        let inside = one_line(self.text(body.start + 1..body.end - 1));
        let all = match &signature.output {
            // Without its only statement it does the same as if it returned.
            ReturnType::Default => match block.stmts.as_slice() {
                [] | [Stmt::Expr(..)] => Vec::new(),
                _ => vec!["()".to_owned()],
            },
            ReturnType::Type(_, of) => values(of),
        };
        let at = range(&signature.ident).start;
        for value in all {
            if !is_same(&inside, &value) {
                let splice = Splice::first(body.start + 1, &format!("return {value};"));
                self.add(format!("return `{value}`"), at, splice);
            }
        }
    }
}
