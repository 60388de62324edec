import pytest

import lagwise as lw
from lagwise.lds import LDS

pytest.importorskip("matplotlib")


@pytest.mark.filterwarnings("ignore:the lags end too early")
def test_plots_show_what_the_model_holds():
    from lagwise import plots

    model = LDS(2, n_iter=4, tol=0, pseudocount=1).fit(lw.count(lines=["a b c d " * 50, "a d b c " * 50], min_count=1))
    ax = plots.plot_hankel_values(model)
    assert list(ax.lines[0].get_ydata()) == list(model.hankel_values_) and "suggested" in ax.get_title()
    ax = plots.plot_history(model)
    assert len(ax.lines[0].get_xdata()) == 5 and ax.lines[1].get_xdata()[0] == model.best_iter_
    assert len(plots.plot_eigenvalues(model).lines[1].get_xdata()) == 2
    with pytest.raises(ValueError, match="without a Hankel matrix"):
        plots.plot_hankel_values(
            LDS(2, init="random", n_iter=1, tol=0, pseudocount=1).fit(lw.count(lines=["a b c d " * 50], min_count=1))
        )
