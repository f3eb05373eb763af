"""Classifiers of two other libraries as rows of a benchmark.

    pip install pulearn pu-toolbox
    puarena run examples/guests.yaml --out results

Every variable is a method: ``pulearn_bagging`` is called ``pulearn-bagging``. ``PRIOR`` stands for
the class prior that the experiment gives, ``UNLABELED_PRIOR`` for the share of positives in the
unlabeled set, which is what the risk estimators below are about.
"""

import pu_toolbox
import pulearn
from sklearn.linear_model import LogisticRegression

from puarena import PUClassifier
from puarena.classics import UNLABELED_PRIOR

pulearn_bagging = pulearn.BaggingPuClassifier(n_estimators=50)
pulearn_elkan_noto = pulearn.ElkanotoPuClassifier(LogisticRegression(max_iter=1000))
pulearn_naive_bayes = pulearn.PositiveNaiveBayesClassifier()
pulearn_nnpu = pulearn.NNPUClassifier(prior=UNLABELED_PRIOR)
pulearn_tan = pulearn.PositiveTANClassifier()
toolbox_dist_pu = pu_toolbox.DistPUClassifier(class_prior=UNLABELED_PRIOR)
toolbox_elkan_noto = pu_toolbox.ElkanNotoClassifier()
toolbox_infomax = pu_toolbox.InfoMaxPUClassifier(class_prior=UNLABELED_PRIOR)
toolbox_llsvm = pu_toolbox.LLSVMClassifier()
toolbox_pusb = pu_toolbox.PUSBClassifier()
toolbox_self_pu = pu_toolbox.SelfPUClassifier(class_prior=UNLABELED_PRIOR)
toolbox_upu = pu_toolbox.UPUClassifier(class_prior=UNLABELED_PRIOR, fit_intercept=False)
pu_classifier = PUClassifier()
