use super::*;

fn drawing(steps: &[Taken]) -> Vec<(u32, Vec<(u32, String)>)> {
    let names = GeneratedNames::default();
    let mut drawing = Drawing::new(steps, &names);
    let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
    let mut places = Vec::new();
    for (rv, seconds) in [(11, 0), (12, 0), (13, 1), (14, 31), (15, 731)] {
        let has_begun = |step: &Taken| step.after_rv < ResourceVersion::new(rv);
        let x = drawing.column(at(seconds), has_begun);
        places.push((x, drawing.chart.gaps.clone()));
    }
    places
}

#[test]
fn what_happens_between_steps_without_writes_belongs_to_the_step_of_its_time() {
    let rv = ResourceVersion::new(10);
    let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
    let steps = [0, 30, 600].map(|seconds| Taken {
        heading: format!("at {seconds}"),
        note: None,
        after_rv: rv,
        began: at(seconds),
    });
    let names = GeneratedNames::default();
    let mut drawing = Drawing::new(&steps, &names);
    let mut places = Vec::new();
    for seconds in [5, 40, 599, 600] {
        let refused = ("manager", "refused".to_owned());
        drawing.wire(MarkKind::Refused, (rv, at(seconds)), refused);
        let (_, mark) = drawing.marks.last().expect("it is a mark");
        places.push((drawing.begun, mark.time.clone()));
    }
    let places: Vec<(usize, &str)> = places
        .iter()
        .map(|(step, time)| (*step, time.as_str()))
        .collect();
    assert_eq!(places, [(1, "+5s"), (2, "+10s"), (2, "+9m29s"), (3, "+0s")]);
}

#[test]
fn each_write_has_a_column_and_long_silences_are_gaps() {
    let steps = [Taken {
        heading: "1. delete pod web-0".to_owned(),
        note: None,
        after_rv: ResourceVersion::new(10),
        began: Timestamp::UNIX_EPOCH,
    }];
    let places = drawing(&steps);
    let room: Vec<u32> = places
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    assert_eq!(room[0], BESIDE);
    assert!(
        LATER < room[1] && room[1] < room[2] && room[2] < GAP,
        "{room:?}"
    );
    assert_eq!(room[3], GAP);
    let (_, gaps) = &places[4];
    assert_eq!(gaps.len(), 1);
    assert_eq!(gaps[0].1, "11m40s");
}
