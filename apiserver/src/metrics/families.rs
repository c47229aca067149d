//! Families of metrics that are counted elsewhere, in the form in which they are shown.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::{TextEncoder, proto};

/// A histogram of whole numbers: nanoseconds, bytes, requests.
#[derive(Debug)]
pub(crate) struct Histogram {
    scale: Scale,
    /// The number of values up to each bound and above the previous one; the last are above all
    /// bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The buckets of a histogram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The upper bounds, in order.
    pub(crate) bounds: &'static [u64],
    /// The divisor of shown values: 10⁹ for nanoseconds shown as seconds.
    pub(crate) per_unit: u64,
}

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub(crate) const MILLISECOND: u64 = 1_000_000;

impl Histogram {
    pub(crate) fn new(scale: Scale) -> Self {
        let counts = (0..=scale.bounds.len()).map(|_| AtomicU64::new(0));
        Self {
            scale,
            counts: counts.collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub(crate) fn observe(&self, value: u64) {
        self.observe_times(value, 1);
    }

    /// Observes one number `times` times.
    pub(crate) fn observe_times(&self, value: u64, times: u64) {
        let bucket = self.scale.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(value * times, Ordering::Relaxed);
    }

    /// The number of observed values.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().map(number).sum()
    }

    /// The histogram by `bounds`, which are among its own, with `zeros` more observations of 0.
    fn shown(&self, bounds: &[u64], zeros: u64) -> proto::Histogram {
        let mut counts: Vec<u64> = self.counts.iter().map(number).collect();
        counts[0] += zeros;
        let buckets = bounds.iter().map(|bound| {
            let below = self.scale.bounds.partition_point(|own| own <= bound);
            let mut bucket = proto::Bucket::default();
            bucket.set_cumulative_count(counts[..below].iter().sum());
            bucket.set_upper_bound(ratio(*bound, self.scale.per_unit));
            bucket
        });
        let buckets: Vec<proto::Bucket> = buckets.collect();
        let mut shown = proto::Histogram::default();
        shown.set_bucket(buckets);
        shown.set_sample_count(counts.iter().sum());
        shown.set_sample_sum(ratio(number(&self.sum), self.scale.per_unit));
        shown
    }

    /// The sum of histograms of one scale.
    pub(crate) fn sum_of<'h>(scale: Scale, histograms: impl IntoIterator<Item = &'h Self>) -> Self {
        let sum = Self::new(scale);
        for histogram in histograms {
            for (sum, own) in sum.counts.iter().zip(&histogram.counts) {
                sum.fetch_add(number(own), Ordering::Relaxed);
            }
            sum.sum.fetch_add(number(&histogram.sum), Ordering::Relaxed);
        }
        sum
    }
}

/// The present value of a count.
pub(crate) fn number(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn ratio(value: u64, per_unit: u64) -> f64 {
    value as f64 / per_unit as f64
}

/// Metrics of one name.
#[derive(Debug)]
pub(crate) struct Family(proto::MetricFamily);

impl Family {
    pub(crate) fn counter(name: &str, help: &str) -> Self {
        Self::new(name, help, proto::MetricType::COUNTER)
    }

    pub(crate) fn gauge(name: &str, help: &str) -> Self {
        Self::new(name, help, proto::MetricType::GAUGE)
    }

    pub(crate) fn histogram(name: &str, help: &str) -> Self {
        Self::new(name, help, proto::MetricType::HISTOGRAM)
    }

    pub(super) fn summary(name: &str, help: &str) -> Self {
        Self::new(name, help, proto::MetricType::SUMMARY)
    }

    fn new(name: &str, help: &str, kind: proto::MetricType) -> Self {
        let mut family = proto::MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        Self(family)
    }

    /// Adds the number of a counter or a gauge; labels are in the order of their names.
    pub(crate) fn add(&mut self, labels: &[(&str, &str)], value: u64) {
        self.add_number(labels, ratio(value, 1));
    }

    /// Adds a number that need not be whole.
    pub(crate) fn add_number(&mut self, labels: &[(&str, &str)], value: f64) {
        let mut metric = proto::Metric::from_label(pairs(labels));
        match self.0.get_field_type() {
            proto::MetricType::COUNTER => {
                let mut counter = proto::Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            _ => {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        self.0.mut_metric().push(metric);
    }

    /// Adds a histogram.
    pub(crate) fn add_histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        self.add_shown(labels, histogram.shown(histogram.scale.bounds, 0));
    }

    /// Adds a histogram with `zeros` more observations of 0 than were made one by one.
    pub(crate) fn add_histogram_and_zeros(
        &mut self,
        labels: &[(&str, &str)],
        histogram: &Histogram,
        zeros: u64,
    ) {
        self.add_shown(labels, histogram.shown(histogram.scale.bounds, zeros));
    }

    /// Adds a histogram by `bounds`, which are among its own.
    pub(crate) fn add_histogram_by(
        &mut self,
        labels: &[(&str, &str)],
        histogram: &Histogram,
        bounds: &[u64],
    ) {
        self.add_shown(labels, histogram.shown(bounds, 0));
    }

    fn add_shown(&mut self, labels: &[(&str, &str)], shown: proto::Histogram) {
        let mut metric = proto::Metric::from_label(pairs(labels));
        metric.set_histogram(shown);
        self.0.mut_metric().push(metric);
    }

    /// Adds a summary: quantiles with their values, and the sum and number of all observations.
    pub(super) fn add_summary(
        &mut self,
        labels: &[(&str, &str)],
        quantiles: &[(f64, f64)],
        (sum, count): (f64, u64),
    ) {
        let quantiles = quantiles.iter().map(|(quantile, value)| {
            let mut shown = proto::Quantile::default();
            shown.set_quantile(*quantile);
            shown.set_value(*value);
            shown
        });
        let mut summary = proto::Summary::default();
        summary.set_quantile(quantiles.collect());
        summary.set_sample_sum(sum);
        summary.set_sample_count(count);
        let mut metric = proto::Metric::from_label(pairs(labels));
        metric.set_summary(summary);
        self.0.mut_metric().push(metric);
    }

    /// The family to write; `None` for a family without metrics.
    pub(super) fn written(self) -> Option<proto::MetricFamily> {
        let is_empty = self.0.get_metric().is_empty();
        (!is_empty).then_some(self.0)
    }
}

/// Families as text, sorted by name.
pub(crate) fn exposition(families: impl IntoIterator<Item = Family>) -> String {
    let written = families.into_iter().filter_map(Family::written);
    encoded(written.collect())
}

pub(super) fn encoded(mut families: Vec<proto::MetricFamily>) -> String {
    families.sort_by(|one, other| one.name().cmp(other.name()));
    let encoded = TextEncoder::new().encode_to_string(&families);
    encoded.expect("labels are text and every metric has a value")
}

fn pairs(labels: &[(&str, &str)]) -> Vec<proto::LabelPair> {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_all_up_to_their_bound_and_are_shown_in_units() {
        const BOUNDS: [u64; 2] = [5 * MILLISECOND, SECOND];
        let histogram = Histogram::new(Scale {
            bounds: &BOUNDS,
            per_unit: SECOND,
        });
        for value in [0, 5 * MILLISECOND, 5 * MILLISECOND + 1, 2 * SECOND] {
            histogram.observe(value);
        }
        let mut family = Family::histogram("waits_seconds", "Waits.");
        family.add_histogram(&[("a", "b")], &histogram);
        let wanted = "# HELP waits_seconds Waits.\n# TYPE waits_seconds histogram\n\
                      waits_seconds_bucket{a=\"b\",le=\"0.005\"} 2\n\
                      waits_seconds_bucket{a=\"b\",le=\"1\"} 3\n\
                      waits_seconds_bucket{a=\"b\",le=\"+Inf\"} 4\n\
                      waits_seconds_sum{a=\"b\"} 2.010000001\n\
                      waits_seconds_count{a=\"b\"} 4\n";
        let none = Family::gauge("none", "None.");
        assert_eq!(exposition([none, family]), wanted);

        // By fewer bounds, and with those that were not observed one by one.
        let both = Histogram::sum_of(histogram.scale, [&histogram, &histogram]);
        let mut family = Family::histogram("waits_seconds", "Waits.");
        family.add_histogram_by(&[], &both, &[SECOND]);
        family.add_histogram_and_zeros(&[("a", "b")], &Histogram::new(histogram.scale), 3);
        let wanted = "# HELP waits_seconds Waits.\n# TYPE waits_seconds histogram\n\
                      waits_seconds_bucket{le=\"1\"} 6\n\
                      waits_seconds_bucket{le=\"+Inf\"} 8\n\
                      waits_seconds_sum 4.020000002\n\
                      waits_seconds_count 8\n\
                      waits_seconds_bucket{a=\"b\",le=\"0.005\"} 3\n\
                      waits_seconds_bucket{a=\"b\",le=\"1\"} 3\n\
                      waits_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\n\
                      waits_seconds_sum{a=\"b\"} 0\n\
                      waits_seconds_count{a=\"b\"} 3\n";
        assert_eq!(exposition([family]), wanted);
    }
}
