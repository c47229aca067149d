//! The programs of Kubernetes' own tests that use processor and memory on request: `resource-consumer`, and
//! `agnhost resource-consumer-controller`, which spreads a request over the consumers behind a service.
//!
//! Source: `test/images/resource-consumer`, `test/images/agnhost/resource-consumer-controller`.

use jiff::{SignedDuration, Timestamp};
use kubeproof_machinery::request::options::Query;
use parking_lot::Mutex;

use crate::server::Page;

/// How long a finished load is remembered: longer than the time between two samples.
const KEPT: SignedDuration = SignedDuration::from_secs(60);

/// The most requests that one request is spread over.
const SHARES_MAX: i64 = 10_000;

/// A request to a program, in parts.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The query without its `?`; empty without a query.
    pub query: &'a str,
    /// The body, read as a form.
    pub body: &'a str,
}

/// The processor time and the memory that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumption {
    /// Billionths of a processor.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// The loads of one run of a container.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<Vec<Load>>);

#[derive(Clone, Copy, Debug)]
struct Load {
    resource: Resource,
    /// Thousandths of a processor, or millions of bytes in units of 1024.
    amount: i64,
    from: Timestamp,
    until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
}

impl Resource {
    /// Returns the name of the parameter with the amount.
    fn parameter(self) -> &'static str {
        match self {
            Self::Cpu => "millicores",
            Self::Memory => "megabytes",
        }
    }
}

/// A request that was understood.
struct Work {
    /// The name of the function.
    function: &'static str,
    resource: Resource,
    amount: i64,
    seconds: i64,
    /// The amount of each request to a consumer.
    size: i64,
}

impl Loads {
    fn add(&self, work: &Work, amount: i64, now: Timestamp) {
        let mut loads = self.0.lock();
        loads.retain(|load| now.duration_since(load.until) < KEPT);
        let until = now.checked_add(SignedDuration::from_secs(work.seconds));
        loads.push(Load {
            resource: work.resource,
            amount,
            from: now,
            until: until.unwrap_or(Timestamp::MAX),
        });
    }

    /// Returns the processor time per time in the `window` seconds before `time`, and the memory at `time`.
    pub(super) fn at(&self, time: Timestamp, window: i64) -> Consumption {
        let window = SignedDuration::from_secs(window.max(1));
        let begin = time.checked_sub(window).unwrap_or(Timestamp::MIN);
        let mut total = Consumption { cpu: 0, memory: 0 };
        for load in &*self.0.lock() {
            let amount = i128::from(load.amount);
            match load.resource {
                Resource::Cpu => {
                    let shared = load.until.min(time).duration_since(load.from.max(begin));
                    let shared = shared.as_nanos().max(0);
                    let cpu = amount.saturating_mul(1_000_000).saturating_mul(shared);
                    let cpu = i64::try_from(cpu / window.as_nanos()).unwrap_or(i64::MAX);
                    total.cpu = total.cpu.saturating_add(cpu);
                }
                Resource::Memory if load.from <= time && time < load.until => {
                    let bytes = i64::try_from(amount << 20).unwrap_or(i64::MAX);
                    total.memory = total.memory.saturating_add(bytes);
                }
                Resource::Memory => {}
            }
        }
        total
    }
}

impl Work {
    /// Reads a request to a consumer, or to a controller of consumers if `spreads`.
    ///
    /// # Errors
    /// The response to a request that cannot be read.
    fn read(asked: Asked<'_>, spreads: bool) -> Result<Self, Page> {
        if asked.method != "POST" {
            return Err(error(400, "Bad request. Not a POST request".to_owned()));
        }
        let (function, resource, size) = match asked.path {
            "/ConsumeCPU" => ("ConsumeCPU", Resource::Cpu, "requestSizeMillicores"),
            "/ConsumeMem" => ("ConsumeMem", Resource::Memory, "requestSizeMegabytes"),
            _ if spreads => return Err(error(404, "unknown function".to_owned())),
            path => return Err(error(404, format!("unknown function: {path}"))),
        };
        // A value of the body comes before one of the query.
        let form = Query::parse(&format!("{}&{}", asked.body, asked.query));
        let number = |name: &str| -> Result<i64, Page> {
            let text = form.get(name).filter(|text| !text.is_empty());
            let text = text.ok_or_else(|| error(400, "not given function argument".to_owned()))?;
            let wrong = |_| error(400, "incorrect function argument".to_owned());
            text.parse::<i32>().map(i64::from).map_err(wrong)
        };
        let (seconds, amount) = (number("durationSec")?, number(resource.parameter())?);
        let size = if spreads { number(size)? } else { amount };
        if spreads && (size <= 0 || amount / size > SHARES_MAX) {
            return Err(error(400, "incorrect function argument".to_owned()));
        }
        Ok(Self {
            function,
            resource,
            amount,
            seconds,
            size,
        })
    }

    /// Returns the amounts of the requests to consumers.
    fn shares(&self) -> impl Iterator<Item = i64> {
        let whole = usize::try_from(self.amount / self.size).unwrap_or(0);
        let rest = Some(self.amount % self.size).filter(|rest| *rest > 0);
        std::iter::repeat_n(self.size, whole).chain(rest)
    }
}

/// Answers as a consumer with these loads.
pub(super) fn consume(asked: Asked<'_>, loads: &Loads, now: Timestamp) -> Page {
    let work = match Work::read(asked, false) {
        Ok(work) => work,
        Err(page) => return page,
    };
    loads.add(&work, work.amount, now);
    let Work {
        function,
        resource,
        amount,
        seconds,
        ..
    } = work;
    let parameter = resource.parameter();
    text(
        200,
        format!("{function}\n{amount} {parameter}\n{seconds} durationSec\n"),
    )
}

/// Answers as a controller of these consumers. Upstream's service takes any of them for each request; here they get
/// their requests in turn.
pub(super) fn spread(asked: Asked<'_>, consumers: &[&Loads], now: Timestamp) -> Page {
    let work = match Work::read(asked, true) {
        Ok(work) => work,
        Err(page) => return page,
    };
    let (count, rest) = (work.amount / work.size, work.amount % work.size);
    let (size, parameter) = (work.size, work.resource.parameter());
    let unit = match work.resource {
        Resource::Cpu => "millicores",
        Resource::Memory => "MB",
    };
    let mut said = format!(
        "RC manager: sending {count} requests to consume {size} {unit} each and 1 request to consume {rest} {unit}\n"
    );
    for (share, turn) in work.shares().zip(0..) {
        let consumer = consumers.get(turn % consumers.len().max(1));
        said.push_str(&match consumer {
            Some(loads) => {
                loads.add(&work, share, now);
                format!("Consumed {share} {parameter}\n")
            }
            None => "Failed to connect to consumer: connection refused\n".to_owned(),
        });
    }
    text(200, said)
}

fn text(status: u16, body: String) -> Page {
    Page {
        status,
        content_type: "text/plain; charset=utf-8",
        body: body.into_bytes(),
    }
}

fn error(status: u16, message: String) -> Page {
    text(status, format!("{message}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn post<'a>(path: &'a str, query: &'a str, body: &'a str) -> Asked<'a> {
        Asked {
            method: "POST",
            path,
            query,
            body,
        }
    }

    fn work(path: &str, query: &str) -> Work {
        let read = Work::read(post(path, query, ""), false);
        read.unwrap_or_else(|page| panic!("{page:?}"))
    }

    #[test]
    fn loads_add_up_over_their_time() {
        let loads = Loads::default();
        let cpu = work("/ConsumeCPU", "millicores=100&durationSec=30");
        loads.add(&cpu, 100, at(0));
        loads.add(&cpu, 50, at(20));
        loads.add(
            &work("/ConsumeMem", "megabytes=10&durationSec=5"),
            10,
            at(20),
        );
        for (second, millicores, megabytes) in [
            (0, 0, 0),
            (3, 20, 0),
            (15, 100, 0),
            (30, 133, 0),
            (24, 113, 10),
            (25, 116, 0),
            (45, 50, 0),
            (60, 16, 0),
            (65, 0, 0),
        ] {
            let used = loads.at(at(second), 15);
            let used = (used.cpu / 1_000_000, used.memory >> 20);
            assert_eq!(used, (millicores, megabytes), "{second}");
        }
    }

    #[test]
    fn finished_loads_are_forgotten() {
        let loads = Loads::default();
        let cpu = work("/ConsumeCPU", "millicores=100&durationSec=30");
        for second in (0..600).step_by(30) {
            loads.add(&cpu, 100, at(second));
        }
        assert_eq!(loads.0.lock().len(), 3);
    }

    #[test]
    fn consumers_get_their_requests_in_turn() {
        let (one, other) = (Loads::default(), Loads::default());
        let consumers = [&one, &other];
        let query = "millicores=250&durationSec=30&requestSizeMillicores=100";
        let page = spread(post("/ConsumeCPU", query, ""), &consumers, at(0));
        let said = "RC manager: sending 2 requests to consume 100 millicores each and 1 request to consume 50 \
                    millicores\nConsumed 100 millicores\nConsumed 100 millicores\nConsumed 50 millicores\n";
        assert_eq!(String::from_utf8(page.body).unwrap(), said);
        let used = consumers.map(|loads| loads.at(at(15), 15).cpu / 1_000_000);
        assert_eq!(used, [150, 100]);
        let nobody = spread(post("/ConsumeCPU", query, ""), &[], at(0));
        let said = String::from_utf8(nobody.body).unwrap();
        assert!(said.ends_with("Failed to connect to consumer: connection refused\n"));
    }

    #[test]
    fn a_consumer_says_what_it_consumes() {
        let loads = Loads::default();
        let page = consume(
            post("/ConsumeMem", "megabytes=3&durationSec=9", ""),
            &loads,
            at(0),
        );
        let said = "ConsumeMem\n3 megabytes\n9 durationSec\n";
        assert_eq!(String::from_utf8(page.body).unwrap(), said);
        assert_eq!(loads.at(at(1), 15).memory, 3 << 20);
    }

    #[test]
    fn requests_are_read_as_upstream_s_programs_read_them() {
        let size = "millicores=250&durationSec=30&requestSizeMillicores=100";
        let shares = |query: &str| -> Vec<i64> {
            let read = Work::read(post("/ConsumeCPU", query, ""), true);
            read.map(|work| work.shares().collect()).unwrap_or_default()
        };
        assert_eq!(shares(size), [100, 100, 50]);
        assert_eq!(shares(&size.replace("250", "300")), [100, 100, 100]);
        assert!(shares(&size.replace("=100", "=0")).is_empty());
        assert!(shares(&size.replace("250", "2000000000")).is_empty());
        let form = post("/ConsumeMem", "megabytes=1", "megabytes=2&durationSec=9");
        let read = Work::read(form, false).unwrap_or_else(|page| panic!("{page:?}"));
        assert_eq!((read.amount, read.seconds), (2, 9));
        let get = Asked {
            method: "GET",
            ..form
        };
        for (asked, spreads, status, says) in [
            (get, false, 400, "Bad request. Not a POST request\n"),
            (post("/x", "", ""), false, 404, "unknown function: /x\n"),
            (post("/x", "", ""), true, 404, "unknown function\n"),
            (
                post("/ConsumeCPU", "millicores=1", ""),
                false,
                400,
                "not given function argument\n",
            ),
            (
                post("/ConsumeCPU", "millicores=1&durationSec=1", ""),
                true,
                400,
                "not given function argument\n",
            ),
            (
                post("/ConsumeCPU", "millicores=x&durationSec=1", ""),
                false,
                400,
                "incorrect function argument\n",
            ),
        ] {
            let refused = Work::read(asked, spreads).err().unwrap();
            let text = String::from_utf8(refused.body).unwrap();
            assert_eq!((refused.status, text.as_str()), (status, says), "{asked:?}");
        }
    }
}
