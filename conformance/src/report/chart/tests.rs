use super::*;

fn drawing(steps: &[Taken]) -> Vec<(u32, Vec<(u32, String)>)> {
    let names = GeneratedNames::default();
    let mut drawing = Drawing::new(steps, &names);
    let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
    let mut places = Vec::new();
    for (rv, seconds) in [(11, 0), (12, 0), (13, 1), (14, 31), (15, 731)] {
        let x = drawing.column(ResourceVersion::new(rv), at(seconds));
        places.push((x, drawing.chart.gaps.clone()));
    }
    places
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
