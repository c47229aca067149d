//! The renderer of templates: from nodes to text.

use kubeproof_machinery::json::Value;

use super::functions::{is_true, shown};
use super::{Block, Functions, Node, Operand, Pipeline, Template, functions};

/// The maximum nesting of templates that call each other.
const DEPTH_MAX: usize = 32;

struct Renderer<'a> {
    template: &'a Template,
    functions: &'a dyn Functions,
    /// The variables, innermost last; lookups start there.
    variables: Vec<(String, Value)>,
    depth: usize,
    out: String,
}

pub(super) fn render(
    template: &Template,
    document: &Value,
    functions: &dyn Functions,
) -> Result<String, String> {
    let mut renderer = Renderer {
        template,
        functions,
        variables: vec![("$".to_owned(), document.clone())],
        depth: 0,
        out: String::new(),
    };
    renderer.nodes(&template.body, document)?;
    Ok(renderer.out)
}

impl Renderer<'_> {
    /// Renders nodes in their own scope.
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        let outer = self.variables.len();
        for node in nodes {
            self.node(node, dot)?;
        }
        self.variables.truncate(outer);
        Ok(())
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<(), String> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Show(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                self.out.push_str(&shown(&value));
            }
            Node::Assign {
                variable,
                declares,
                pipeline,
            } => {
                let value = self.pipeline(pipeline, dot)?;
                let mut known = self.variables.iter_mut().rev();
                match known.find(|(name, _)| name == variable) {
                    Some((_, old)) if !declares => *old = value,
                    None if !declares => return Err(format!("{variable} is not declared")),
                    _ => self.variables.push((variable.clone(), value)),
                }
            }
            Node::If(branches) => {
                for (condition, body) in branches {
                    let holds = match condition {
                        Some(condition) => is_true(&self.pipeline(condition, dot)?),
                        None => true,
                    };
                    if holds {
                        return self.nodes(body, dot);
                    }
                }
            }
            Node::With(block) => {
                let value = self.pipeline(&block.pipeline, dot)?;
                if !is_true(&value) {
                    return self.nodes(&block.otherwise, dot);
                }
                self.item(block, None, &value)?;
            }
            Node::Range(block) => self.range(block, dot)?,
            Node::Template(name, argument) => self.template(name, argument.as_ref(), dot)?,
        }
        Ok(())
    }

    fn range(&mut self, block: &Block, dot: &Value) -> Result<(), String> {
        let items: Vec<(Value, Value)> = match self.pipeline(&block.pipeline, dot)? {
            Value::Array(items) => {
                let items = items.into_iter().enumerate();
                items.map(|(at, item)| (Value::from(at), item)).collect()
            }
            Value::Object(fields) => {
                let fields = fields.into_iter();
                fields.map(|(key, item)| (Value::from(key), item)).collect()
            }
            Value::Null => Vec::new(),
            other => return Err(format!("range over {other}")),
        };
        if items.is_empty() {
            return self.nodes(&block.otherwise, dot);
        }
        for (key, item) in items {
            self.item(block, Some(key), &item)?;
        }
        Ok(())
    }

    /// Renders the body of a block for one value.
    fn item(&mut self, block: &Block, key: Option<Value>, value: &Value) -> Result<(), String> {
        let outer = self.variables.len();
        match (block.variables.as_slice(), key) {
            ([name], _) => self.variables.push((name.clone(), value.clone())),
            ([first, second], Some(key)) => {
                self.variables.push((first.clone(), key));
                self.variables.push((second.clone(), value.clone()));
            }
            ([], _) => {}
            _ => return Err("too many variables".to_owned()),
        }
        self.nodes(&block.body, value)?;
        self.variables.truncate(outer);
        Ok(())
    }

    fn template(
        &mut self,
        name: &str,
        argument: Option<&Pipeline>,
        dot: &Value,
    ) -> Result<(), String> {
        let argument = match argument {
            Some(argument) => self.pipeline(argument, dot)?,
            None => Value::Null,
        };
        let template = self.template;
        let body = template.defined.get(name);
        let body = body.ok_or_else(|| format!("no template is called {name:?}"))?;
        if self.depth == DEPTH_MAX {
            return Err(format!("templates are nested too deep at {name:?}"));
        }
        self.depth += 1;
        // A template does not see the variables of its caller.
        let root = vec![("$".to_owned(), argument.clone())];
        let outer = std::mem::replace(&mut self.variables, root);
        self.nodes(body, &argument)?;
        self.variables = outer;
        self.depth -= 1;
        Ok(())
    }

    fn pipeline(&self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut piped = None;
        for command in pipeline {
            piped = Some(self.command(command, piped, dot)?);
        }
        Ok(piped.unwrap_or_default())
    }

    fn command(
        &self,
        operands: &[Operand],
        piped: Option<Value>,
        dot: &Value,
    ) -> Result<Value, String> {
        let Some((first, rest)) = operands.split_first() else {
            return Ok(Value::Null);
        };
        let Operand::Function(name) = first else {
            return match (rest, piped) {
                ([], None) => self.operand(first, dot),
                _ => Err("only functions take arguments".to_owned()),
            };
        };
        let mut arguments = Vec::new();
        for operand in rest {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(piped);
        self.call(name, &arguments)
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        if let Some(result) = functions::call(name, arguments) {
            return result;
        }
        let own = self.functions.call(name, arguments);
        own.ok_or_else(|| format!("no function is called {name:?}"))
    }

    fn operand(&self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Field(path) => Ok(part(dot, path)),
            Operand::Variable(name, path) => {
                let mut known = self.variables.iter().rev();
                let found = known.find(|(own, _)| own == name);
                let (_, value) = found.ok_or_else(|| format!("{name} is not declared"))?;
                Ok(part(value, path))
            }
            Operand::Function(name) => self.call(name, &[]),
            Operand::Group(pipeline, path) => Ok(part(&self.pipeline(pipeline, dot)?, path)),
        }
    }
}

/// Returns the value at a path; null if it does not exist.
fn part(value: &Value, path: &[String]) -> Value {
    let mut value = value;
    for name in path {
        value = value.get(name).unwrap_or(&Value::Null);
    }
    value.clone()
}
