//! The reader as a deserializer.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::{Fault, Inside, Reader};

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.peek().ok_or(Fault)? {
            b'"' => visit(self.string()?, visitor),
            b'{' => {
                let inside = self.enter()?;
                let mut fields = Fields(Within::new(self, inside));
                let value = visitor.visit_map(&mut fields)?;
                fields.0.left(value)
            }
            b'[' => {
                let inside = self.enter()?;
                let mut items = Items(Within::new(self, inside));
                let value = visitor.visit_seq(&mut items)?;
                items.0.left(value)
            }
            b't' => self.word("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.word("false").and_then(|()| visitor.visit_bool(false)),
            b'n' => self.word("null").and_then(|()| visitor.visit_unit()),
            _ => {
                let number = self.number()?;
                match (number.as_u64(), number.as_i64(), number.as_f64()) {
                    (Some(number), ..) => visitor.visit_u64(number),
                    (None, Some(number), _) => visitor.visit_i64(number),
                    (None, None, number) => visitor.visit_f64(number.ok_or(Fault)?),
                }
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.peek() {
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

fn visit<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Fault> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_str(&text),
    }
}

/// The inside of an object or a list.
struct Within<'r, 'de> {
    reader: &'r mut Reader<'de>,
    inside: Inside,
    is_over: bool,
}

impl<'r, 'de> Within<'r, 'de> {
    fn new(reader: &'r mut Reader<'de>, inside: Inside) -> Self {
        Self {
            reader,
            inside,
            is_over: false,
        }
    }

    /// The value that was made of it, provided that nothing is left of it.
    fn left<T>(self, value: T) -> Result<T, Fault> {
        self.is_over.then_some(value).ok_or(Fault)
    }
}

struct Fields<'r, 'de>(Within<'r, 'de>);

impl<'de> MapAccess<'de> for &mut Fields<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let within = &mut self.0;
        match within.reader.name(&mut within.inside)? {
            Some(name) => seed.deserialize(Name(name)).map(Some),
            None => {
                within.is_over = true;
                Ok(None)
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        seed.deserialize(&mut *self.0.reader)
    }
}

struct Items<'r, 'de>(Within<'r, 'de>);

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let within = &mut self.0;
        if within.reader.has_next(&mut within.inside, b']')? {
            return seed.deserialize(&mut *within.reader).map(Some);
        }
        within.is_over = true;
        Ok(None)
    }
}

/// The name of a field.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit(self.0, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
