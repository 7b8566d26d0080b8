"""The seconds and dollars of parking a replica and of rebuilding it, by which its disposal is decided. Pure."""

from __future__ import annotations

from peaker.domain.document.disposal import ParkingFigures
from peaker.domain.planning.lead_time import LeadTimeInputs, predict_lead_time, predict_return
from peaker.domain.prices.price_table import PriceTable, total, usd, volumes_hourly
from peaker.domain.reading import Known
from peaker.domain.replicas.fleet import Replica
from peaker.domain.runs.past_runs import PastSteps, measured_return_speed
from peaker_contract.cluster import ClusterSettings


def parking_figures(
    replica: Replica,
    settings: ClusterSettings,
    prices: PriceTable,
    inputs: LeadTimeInputs,
    past: PastSteps,
) -> ParkingFigures:
    """The figures of one replica; its volumes must be known, the root volume among them."""
    build = predict_lead_time(inputs, past).p50_seconds
    parked_hourly = volumes_hourly(replica.volumes, prices)
    instance = prices.instance_hour(replica.instance.instance_type)
    serving = total((instance, parked_hourly))
    rate = settings.initialization_rate_mib_per_s
    hydration = total(
        prices.initialization(one.size_gib, rate) for one in replica.volumes if one.name != "root"
    )
    running = Known(serving.value * build / 3600) if isinstance(serving, Known) else serving
    speed = measured_return_speed(past, inputs.apply_speed)
    return ParkingFigures(
        return_seconds=round(predict_return(inputs, 0.0, past).p50_seconds, 1),
        build_seconds=round(build, 1),
        catch_up_per_hour=round(3600 / (speed - 1), 1),
        parked_hourly_usd=usd(parked_hourly, 5),
        serving_hourly_usd=usd(serving, 5),
        rebuild_usd=usd(total((hydration, running)), 4),
    )
