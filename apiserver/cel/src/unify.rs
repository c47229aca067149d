//! Decides which types are assignable to which, and binds type variables accordingly.

use std::sync::Arc;

use super::types::Type;

/// Bindings of type variables to types.
#[derive(Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// The former bindings, in order, for undoing failed attempts.
    trail: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    /// A fresh variable.
    pub(super) fn variable(&mut self) -> usize {
        self.bound.push(None);
        self.bound.len() - 1
    }

    fn find(&self, variable: usize) -> Option<&Type> {
        self.bound.get(variable)?.as_ref()
    }

    fn bind(&mut self, variable: usize, to: Type) {
        let before = self.bound[variable].replace(to);
        self.trail.push((variable, before));
    }

    /// Whether each of `types` fits `wanted` in turn; variables are bound only if all do.
    pub(super) fn assign_all(&mut self, types: &[Type], wanted: &[Type]) -> bool {
        self.trail.clear();
        let fits =
            types.len() == wanted.len() && types.iter().zip(wanted).all(|(a, b)| self.assign(a, b));
        if !fits {
            while let Some((variable, before)) = self.trail.pop() {
                self.bound[variable] = before;
            }
        }
        fits
    }

    /// Whether `a` fits `b`; variables are bound only if it does.
    pub(super) fn assign_one(&mut self, a: &Type, b: &Type) -> bool {
        self.assign_all(std::slice::from_ref(a), std::slice::from_ref(b))
    }

    fn assign(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Var(variable) = b {
            match self.stands_for(a, *variable) {
                Fit::Yes => return true,
                Fit::Bound => return false,
                Fit::Within => {}
            }
        }
        if let Type::Var(variable) = a {
            return matches!(self.stands_for(b, *variable), Fit::Yes);
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.assign(a, b),
            (Type::Map(a, c), Type::Map(b, d)) => self.assign(a, b) && self.assign(c, d),
            (Type::Opaque(a, p), Type::Opaque(b, q)) => {
                a == b && p.len() == q.len() && p.iter().zip(q).all(|(p, q)| self.assign(p, q))
            }
            _ => a == b,
        }
    }

    /// Whether `variable` can stand for `a`.
    fn stands_for(&mut self, a: &Type, variable: usize) -> Fit {
        if *a == Type::Var(variable) {
            return Fit::Yes;
        }
        if let Some(bound) = self.find(variable).cloned() {
            if *a == bound {
                return Fit::Yes;
            }
            if !self.assign(a, &bound) {
                return Fit::Bound;
            }
            let general = most_general(a, &bound);
            if !self.occurs(variable, &general) {
                self.bind(variable, general);
            }
            return Fit::Yes;
        }
        if self.occurs(variable, a) {
            return Fit::Within;
        }
        self.bind(variable, a.clone());
        Fit::Yes
    }

    /// Whether `variable` is part of `within`.
    fn occurs(&self, variable: usize, within: &Type) -> bool {
        match within {
            Type::Var(other) => {
                *other == variable
                    || self
                        .find(*other)
                        .is_some_and(|of| self.occurs(variable, of))
            }
            Type::List(item) => self.occurs(variable, item),
            Type::Map(key, value) => self.occurs(variable, key) || self.occurs(variable, value),
            Type::Type(Some(of)) => self.occurs(variable, of),
            Type::Opaque(_, of) => of.iter().any(|of| self.occurs(variable, of)),
            _ => false,
        }
    }

    /// The type with everything that variables stand for in their place.
    pub(super) fn resolve(&self, of: &Type) -> Type {
        self.substitute(of, None)
    }

    /// Resolves a type like [`Bindings::resolve`], with `dyn` for unbound variables.
    pub(super) fn resolve_all(&self, of: &Type) -> Type {
        self.substitute(of, Some(&Type::Dyn))
    }

    fn substitute(&self, of: &Type, free: Option<&Type>) -> Type {
        match of {
            Type::Var(variable) => match self.find(*variable) {
                Some(bound) => self.substitute(bound, free),
                None => free.unwrap_or(of).clone(),
            },
            Type::List(item) => Type::list(self.substitute(item, free)),
            Type::Map(key, value) => {
                Type::map(self.substitute(key, free), self.substitute(value, free))
            }
            Type::Type(Some(of)) => Type::Type(Some(Arc::new(self.substitute(of, free)))),
            Type::Opaque(name, parameters) => {
                let parameters = parameters
                    .iter()
                    .map(|p| self.substitute(p, free))
                    .collect();
                Type::Opaque(name.clone(), parameters)
            }
            _ => of.clone(),
        }
    }
}

enum Fit {
    Yes,
    /// The variable is bound to another type.
    Bound,
    /// The variable is a part of the other type.
    Within,
}

/// The type with variables numbered from 0 renumbered from `first`.
pub(super) fn renumbered(of: &Type, first: usize) -> Type {
    match of {
        Type::Var(variable) => Type::Var(first + variable),
        Type::List(item) => Type::list(renumbered(item, first)),
        Type::Map(key, value) => Type::map(renumbered(key, first), renumbered(value, first)),
        Type::Type(Some(of)) => Type::Type(Some(Arc::new(renumbered(of, first)))),
        Type::Opaque(name, parameters) => Type::Opaque(
            name.clone(),
            parameters.iter().map(|p| renumbered(p, first)).collect(),
        ),
        _ => of.clone(),
    }
}

/// The one of two types that says less.
pub(super) fn most_general(a: &Type, b: &Type) -> Type {
    if is_less_specific(a, b) {
        a.clone()
    } else {
        b.clone()
    }
}

fn is_less_specific(a: &Type, b: &Type) -> bool {
    if matches!(a, Type::Dyn | Type::Var(_)) {
        return true;
    }
    match (a, b) {
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) => is_less_specific(a, b),
        (Type::Map(a, c), Type::Map(b, d)) => is_less_specific(a, b) && is_less_specific(c, d),
        (Type::Type(_), Type::Type(_)) => true,
        (Type::Opaque(a, p), Type::Opaque(b, q)) => {
            a == b && p.len() == q.len() && p.iter().zip(q).all(|(p, q)| is_less_specific(p, q))
        }
        _ => a == b,
    }
}
