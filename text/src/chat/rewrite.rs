//! Meters a template before it is compiled.
//!
//! The engine counts instructions, but one `~` can double a text and one literal can nest another,
//! so forty lines could ask for a terabyte. This makes a copy of the parse tree in which everything
//! that makes or scans data goes through the functions of `operators`, `slices`, `bound` and `meter`:
//!
//! ```text
//!   a ~ b            ->  :concat(a, b)          also + and *
//!   [a, b], {k: v}   ->  :keep([a, b])          bounds size and nesting
//!   ns.x = v         ->  ns.x = :assigned(v, ns)
//!   x[i], x|filter   ->  :scan(x)[i], ...       charges the length of a text
//!   x == y, x in y   ->  :compared(x) == ...    charges all that is in it
//!   x[a:b], x % y    ->  :slice(x, a, b, none)  Python's, which the engine has otherwise
//!   x.items          ->  :attribute(x, "items")  Python's too; not of x.items()
//!   raw text         ->  {{ "raw text" }}       so that the formatter charges it
//! ```
//!
//! No template can write a name with a colon, so none can call or replace these functions.

use super::bound::is_method;
use super::budget;
use super::escapes::text_of_literals;
use minijinja::machinery::ast::*;
use minijinja::machinery::Span;
use minijinja::{Error, ErrorKind, Value};

pub const CONCAT: &str = ":concat";
pub const ADD: &str = ":add";
pub const MULTIPLY: &str = ":multiply";
pub const KEEP: &str = ":keep";
pub const ASSIGNED: &str = ":assigned";
pub const SCAN: &str = ":scan";
pub const EACH: &str = ":each";
pub const COMPARED: &str = ":compared";
pub const SLICE: &str = ":slice";
pub const ATTRIBUTE: &str = ":attribute";
pub const REMAINDER: &str = ":remainder";

/// Nesting of expressions and statements; real templates have some ten levels. Everything after
/// this copy may recurse over the tree without fear.
const MAX_NESTED: usize = 250;

pub fn template<'a>(root: &Stmt<'a>, source: &'a str) -> Result<Stmt<'a>, Error> {
    let mut copier = Copier {
        source,
        depth: 0,
        catch_alls: Vec::new(),
    };
    copier.stmt(root)
}

/// What Jinja puts the arguments of a macro into that no parameter takes. The engine does not, so that
/// they would be empty.
const CATCH_ALLS: [&str; 2] = ["varargs", "kwargs"];

struct Copier<'s> {
    source: &'s str,
    depth: usize,
    /// Inside a macro: those of CATCH_ALLS that it has not given a meaning of its own.
    catch_alls: Vec<&'static str>,
}

fn call<'a>(name: &'static str, args: Vec<Expr<'a>>, span: Span) -> Expr<'a> {
    Expr::Call(Spanned::new(
        Call {
            expr: Expr::Var(Spanned::new(Var { id: name }, span)),
            args: args.into_iter().map(CallArg::Pos).collect(),
        },
        span,
    ))
}

fn unary(op: &UnaryOpKind) -> UnaryOpKind {
    match op {
        UnaryOpKind::Not => UnaryOpKind::Not,
        UnaryOpKind::Neg => UnaryOpKind::Neg,
    }
}

type Copy<T> = Result<T, Error>;

impl Copier<'_> {
    fn deeper<T>(&mut self, body: impl FnOnce(&mut Self) -> Copy<T>) -> Copy<T> {
        self.depth += 1;
        if self.depth > MAX_NESTED {
            return Err(budget::too_much(format!(
                "code nested deeper than {MAX_NESTED}"
            )));
        }
        let result = body(self);
        self.depth -= 1;
        result
    }

    fn body<'a>(&mut self, list: &[Stmt<'a>]) -> Copy<Vec<Stmt<'a>>> {
        list.iter().map(|s| self.stmt(s)).collect()
    }

    fn exprs<'a>(&mut self, list: &[Expr<'a>]) -> Copy<Vec<Expr<'a>>> {
        list.iter().map(|e| self.expr(e)).collect()
    }

    fn option<'a>(&mut self, e: &Option<Expr<'a>>) -> Copy<Option<Expr<'a>>> {
        e.as_ref().map(|e| self.expr(e)).transpose()
    }

    fn scan<'a>(&mut self, e: &Expr<'a>) -> Copy<Expr<'a>> {
        self.metered(SCAN, e)
    }

    fn metered<'a>(&mut self, by: &'static str, e: &Expr<'a>) -> Copy<Expr<'a>> {
        let span = e.span();
        Ok(call(by, vec![self.expr(e)?], span))
    }

    /// An operand of a slice; none where it is left out.
    fn bound<'a>(&mut self, e: &Option<Expr<'a>>, span: Span) -> Copy<Expr<'a>> {
        match e {
            Some(e) => self.expr(e),
            None => Ok(Expr::Const(Spanned::new(
                Const {
                    value: Value::from(()),
                },
                span,
            ))),
        }
    }

    /// What stands left of "=": never metered, and a namespace must stay what it is.
    fn target<'a>(&mut self, e: &Expr<'a>) -> Copy<Expr<'a>> {
        self.deeper(|this| {
            let span = e.span();
            Ok(match e {
                Expr::List(l) => Expr::List(Spanned::new(
                    List {
                        items: l
                            .items
                            .iter()
                            .map(|i| this.target(i))
                            .collect::<Copy<_>>()?,
                    },
                    span,
                )),
                Expr::Tuple(t) => Expr::Tuple(Spanned::new(
                    Tuple {
                        items: t
                            .items
                            .iter()
                            .map(|i| this.target(i))
                            .collect::<Copy<_>>()?,
                    },
                    span,
                )),
                Expr::Var(n) => {
                    this.catch_alls.retain(|name| *name != n.id);
                    Expr::Var(Spanned::new(Var { id: n.id }, span))
                }
                Expr::GetAttr(n) => this.get_attr(n)?,
                other => this.expr(other)?,
            })
        })
    }

    fn get_attr<'a>(&mut self, n: &Spanned<GetAttr<'a>>) -> Copy<Expr<'a>> {
        Ok(Expr::GetAttr(Spanned::new(
            GetAttr {
                expr: self.expr(&n.expr)?,
                name: n.name,
            },
            n.span(),
        )))
    }

    fn stmt<'a>(&mut self, s: &Stmt<'a>) -> Copy<Stmt<'a>> {
        self.deeper(|this| this.stmt_inner(s))
    }

    fn stmt_inner<'a>(&mut self, s: &Stmt<'a>) -> Copy<Stmt<'a>> {
        Ok(match s {
            Stmt::Template(n) => Stmt::Template(Spanned::new(
                Template {
                    children: self.body(&n.children)?,
                },
                n.span(),
            )),
            Stmt::EmitExpr(n) => Stmt::EmitExpr(Spanned::new(
                EmitExpr {
                    expr: self.expr(&n.expr)?,
                },
                n.span(),
            )),
            Stmt::EmitRaw(n) => Stmt::EmitExpr(Spanned::new(
                EmitExpr {
                    expr: Expr::Const(Spanned::new(
                        Const {
                            value: Value::from(n.raw),
                        },
                        n.span(),
                    )),
                },
                n.span(),
            )),
            Stmt::ForLoop(n) => Stmt::ForLoop(Spanned::new(
                ForLoop {
                    target: self.target(&n.target)?,
                    iter: self.metered(EACH, &n.iter)?,
                    filter_expr: self.option(&n.filter_expr)?,
                    recursive: n.recursive,
                    body: self.body(&n.body)?,
                    else_body: self.body(&n.else_body)?,
                },
                n.span(),
            )),
            Stmt::IfCond(n) => Stmt::IfCond(Spanned::new(
                IfCond {
                    expr: self.expr(&n.expr)?,
                    true_body: self.body(&n.true_body)?,
                    false_body: self.body(&n.false_body)?,
                },
                n.span(),
            )),
            Stmt::WithBlock(n) => {
                let mut assignments = Vec::new();
                for (target, value) in &n.assignments {
                    assignments.push((self.target(target)?, self.expr(value)?));
                }
                Stmt::WithBlock(Spanned::new(
                    WithBlock {
                        assignments,
                        body: self.body(&n.body)?,
                    },
                    n.span(),
                ))
            }
            Stmt::Set(n) => {
                let mut expr = self.expr(&n.expr)?;
                if let Expr::GetAttr(target) = &n.target {
                    // Read too, since a macro knows only what it reads of what is around it.
                    expr = call(ASSIGNED, vec![expr, self.expr(&target.expr)?], n.span());
                } else if !matches!(n.target, Expr::Var(_)) {
                    expr = call(KEEP, vec![expr], n.span());
                }
                Stmt::Set(Spanned::new(
                    Set {
                        target: self.target(&n.target)?,
                        expr,
                    },
                    n.span(),
                ))
            }
            Stmt::SetBlock(n) => {
                let mut body = self.body(&n.body)?;
                if let Expr::GetAttr(target) = &n.target {
                    // As of a Set: what a macro assigns to is read, too.
                    let read = IfCond {
                        expr: self.expr(&target.expr)?,
                        true_body: Vec::new(),
                        false_body: Vec::new(),
                    };
                    body.insert(0, Stmt::IfCond(Spanned::new(read, n.span())));
                }
                Stmt::SetBlock(Spanned::new(
                    SetBlock {
                        target: self.target(&n.target)?,
                        filter: self.option(&n.filter)?,
                        body,
                    },
                    n.span(),
                ))
            }
            Stmt::FilterBlock(n) => Stmt::FilterBlock(Spanned::new(
                FilterBlock {
                    filter: self.expr(&n.filter)?,
                    body: self.body(&n.body)?,
                },
                n.span(),
            )),
            Stmt::Macro(n) => Stmt::Macro(Spanned::new(self.macro_(n)?, n.span())),
            Stmt::CallBlock(n) => Stmt::CallBlock(Spanned::new(
                CallBlock {
                    call: Spanned::new(self.call(&n.call)?, n.call.span()),
                    macro_decl: Spanned::new(self.macro_(&n.macro_decl)?, n.macro_decl.span()),
                },
                n.span(),
            )),
            Stmt::Block(_)
            | Stmt::Import(_)
            | Stmt::FromImport(_)
            | Stmt::Extends(_)
            | Stmt::Include(_) => {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    "a chat template is one file: block, extends, include and import are not supported",
                ));
            }
            Stmt::AutoEscape(_) => {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    "a prompt is plain text: autoescape is not supported",
                ));
            }
            Stmt::Continue(n) => Stmt::Continue(Spanned::new(Continue, n.span())),
            Stmt::Break(n) => Stmt::Break(Spanned::new(Break, n.span())),
            Stmt::Do(n) => Stmt::Do(Spanned::new(
                Do {
                    call: Spanned::new(self.call(&n.call)?, n.call.span()),
                },
                n.span(),
            )),
        })
    }

    /// A text as Jinja reads it.
    fn constant(&self, value: &Value, span: Span) -> Copy<Value> {
        let written = || {
            self.source
                .get(span.start_offset as usize..span.end_offset as usize)
        };
        Ok(match value.as_str().and_then(|_| written()) {
            Some(literals) => text_of_literals(literals)?.map_or(value.clone(), Value::from),
            None => value.clone(),
        })
    }

    /// A default may name the parameters before it. The engine reads all of them before it has given any parameter
    /// its value, so that they become the first lines of the macro.
    fn defaults<'a>(&mut self, m: &Macro<'a>) -> Copy<Vec<Stmt<'a>>> {
        let first = m.args.len().saturating_sub(m.defaults.len());
        let with_defaults = m.args.iter().skip(first).zip(&m.defaults);
        with_defaults
            .map(|(parameter, default)| {
                let span = default.span();
                let is_left_out = Test {
                    name: "undefined",
                    expr: self.expr(parameter)?,
                    args: Vec::new(),
                };
                let expr = Expr::IfExpr(Spanned::new(
                    IfExpr {
                        test_expr: Expr::Test(Spanned::new(is_left_out, span)),
                        true_expr: self.expr(default)?,
                        false_expr: Some(self.expr(parameter)?),
                    },
                    span,
                ));
                let target = self.target(parameter)?;
                Ok(Stmt::Set(Spanned::new(Set { target, expr }, span)))
            })
            .collect()
    }

    fn macro_<'a>(&mut self, m: &Macro<'a>) -> Copy<Macro<'a>> {
        let outside = std::mem::replace(&mut self.catch_alls, CATCH_ALLS.to_vec());
        let copy = Macro {
            name: m.name,
            args: m.args.iter().map(|a| self.target(a)).collect::<Copy<_>>()?,
            defaults: Vec::new(),
            body: {
                let mut body = self.defaults(m)?;
                body.extend(self.body(&m.body)?);
                body
            },
        };
        self.catch_alls = outside;
        Ok(copy)
    }

    fn args<'a>(&mut self, list: &[CallArg<'a>]) -> Copy<Vec<CallArg<'a>>> {
        list.iter()
            .map(|arg| {
                Ok(match arg {
                    CallArg::Pos(e) => CallArg::Pos(self.expr(e)?),
                    CallArg::Kwarg(name, e) => CallArg::Kwarg(name, self.expr(e)?),
                    CallArg::PosSplat(e) => CallArg::PosSplat(self.scan(e)?),
                    CallArg::KwargSplat(e) => CallArg::KwargSplat(self.scan(e)?),
                })
            })
            .collect()
    }

    fn call<'a>(&mut self, c: &Call<'a>) -> Copy<Call<'a>> {
        Ok(Call {
            expr: match &c.expr {
                // A method that is called is no value.
                Expr::GetAttr(n) => self.deeper(|this| this.get_attr(n))?,
                other => self.expr(other)?,
            },
            args: self.args(&c.args)?,
        })
    }

    fn expr<'a>(&mut self, e: &Expr<'a>) -> Copy<Expr<'a>> {
        self.deeper(|this| this.expr_inner(e))
    }

    fn expr_inner<'a>(&mut self, e: &Expr<'a>) -> Copy<Expr<'a>> {
        let span = e.span();
        Ok(match e {
            Expr::Var(n) if self.catch_alls.contains(&n.id) => {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    format!("{} of a macro is not supported", n.id),
                ));
            }
            Expr::Var(n) => Expr::Var(Spanned::new(Var { id: n.id }, span)),
            Expr::Const(n) => Expr::Const(Spanned::new(
                Const {
                    value: self.constant(&n.value, span)?,
                },
                span,
            )),
            Expr::Slice(n) => {
                let args = vec![
                    self.expr(&n.expr)?,
                    self.bound(&n.start, span)?,
                    self.bound(&n.stop, span)?,
                    self.bound(&n.step, span)?,
                ];
                call(SLICE, args, span)
            }
            Expr::UnaryOp(n) => Expr::UnaryOp(Spanned::new(
                UnaryOp {
                    op: unary(&n.op),
                    expr: self.expr(&n.expr)?,
                },
                span,
            )),
            Expr::BinOp(n) => self.binary(n, span)?,
            Expr::Compare(n) => {
                let mut ops = Vec::new();
                for op in &n.ops {
                    ops.push(CompareOp {
                        op: op.op,
                        expr: self.metered(COMPARED, &op.expr)?,
                    });
                }
                Expr::Compare(Spanned::new(
                    Compare {
                        expr: self.metered(COMPARED, &n.expr)?,
                        ops,
                    },
                    span,
                ))
            }
            Expr::IfExpr(n) => Expr::IfExpr(Spanned::new(
                IfExpr {
                    test_expr: self.expr(&n.test_expr)?,
                    true_expr: self.expr(&n.true_expr)?,
                    false_expr: self.option(&n.false_expr)?,
                },
                span,
            )),
            Expr::Filter(n) => Expr::Filter(Spanned::new(
                Filter {
                    name: n.name,
                    expr: n.expr.as_ref().map(|e| self.scan(e)).transpose()?,
                    args: self.args(&n.args)?,
                },
                span,
            )),
            Expr::Test(n) => Expr::Test(Spanned::new(
                Test {
                    name: n.name,
                    // Not metered: tests such as "defined" look at the expression itself.
                    expr: self.expr(&n.expr)?,
                    args: self.args(&n.args)?,
                },
                span,
            )),
            Expr::GetAttr(n) if is_method(n.name) => {
                let name = Const {
                    value: Value::from(n.name),
                };
                let name = Expr::Const(Spanned::new(name, span));
                call(ATTRIBUTE, vec![self.expr(&n.expr)?, name], span)
            }
            Expr::GetAttr(n) => self.get_attr(n)?,
            Expr::GetItem(n) => Expr::GetItem(Spanned::new(
                GetItem {
                    expr: self.scan(&n.expr)?,
                    // A key is hashed and compared, to its depth.
                    subscript_expr: self.metered(COMPARED, &n.subscript_expr)?,
                },
                span,
            )),
            Expr::Call(n) => Expr::Call(Spanned::new(self.call(n)?, span)),
            Expr::List(n) => {
                let items = self.exprs(&n.items)?;
                call(
                    KEEP,
                    vec![Expr::List(Spanned::new(List { items }, span))],
                    span,
                )
            }
            Expr::Tuple(n) => {
                let items = self.exprs(&n.items)?;
                call(
                    KEEP,
                    vec![Expr::Tuple(Spanned::new(Tuple { items }, span))],
                    span,
                )
            }
            Expr::Map(n) => {
                let map = Map {
                    keys: self.exprs(&n.keys)?,
                    values: self.exprs(&n.values)?,
                };
                call(KEEP, vec![Expr::Map(Spanned::new(map, span))], span)
            }
        })
    }

    fn binary<'a>(&mut self, n: &BinOp<'a>, span: Span) -> Copy<Expr<'a>> {
        let name = match n.op {
            BinOpKind::Concat => CONCAT,
            BinOpKind::Add => ADD,
            BinOpKind::Mul => MULTIPLY,
            BinOpKind::Rem => REMAINDER,
            op => {
                let compares = matches!(
                    op,
                    BinOpKind::Eq
                        | BinOpKind::Ne
                        | BinOpKind::Lt
                        | BinOpKind::Lte
                        | BinOpKind::Gt
                        | BinOpKind::Gte
                        | BinOpKind::In
                );
                let (left, right) = if compares {
                    (
                        self.metered(COMPARED, &n.left)?,
                        self.metered(COMPARED, &n.right)?,
                    )
                } else {
                    (self.expr(&n.left)?, self.expr(&n.right)?)
                };
                return Ok(Expr::BinOp(Spanned::new(BinOp { op, left, right }, span)));
            }
        };
        let args = vec![self.expr(&n.left)?, self.expr(&n.right)?];
        Ok(call(name, args, span))
    }
}
